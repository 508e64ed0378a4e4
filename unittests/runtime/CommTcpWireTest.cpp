// Data from strangers, and missing data, over TCP.
#include "CommRanks.h"
#include "NcclRanks.h"
#include "comm/TransportCommunicator.h"
#include "comm/tcp/Callers.h"
#include "comm/tcp/Introduction.h"
#include "comm/tcp/Link.h"
#include "comm/tcp/TcpTransport.h"
#include "support/Error.h"

#include <arpa/inet.h>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace scalify::rt;
using namespace scalify::test;
using scalify::rt::test::errorOf;
using testing::HasSubstr;

namespace {
scalify_transport_options optionsOf(const std::string &job, int32_t rank,
                                    int32_t size) {
  scalify_transport_options options = {};
  options.version = SCALIFY_TRANSPORT_VERSION;
  options.rank = rank;
  options.size = size;
  options.job = job.c_str();
  options.wait.seconds = 20;
  return options;
}

Patience patience() {
  return Patience(scalify_transport_wait{20, nullptr, nullptr});
}

std::string placeOf(const File &listener) {
  return "127.0.0.1:" + std::to_string(tcp::portOf(listener));
}

File connectTo(const std::string &place) {
  tcp::Reason reason;
  File file = tcp::connectTo(tcp::readPlace(place, "it"), patience(), reason);
  EXPECT_TRUE(file) << reason.text;
  return file;
}

File callerAt(const File &listener) {
  std::vector<pollfd> files = {{listener.get(), POLLIN, 0}};
  while (!files[0].revents)
    patience().waitFor(files);
  return tcp::acceptAt(listener);
}

TEST(CommTcpWire, AConnectionToItselfIsRefused) {
  File listener = tcp::listenAt("127.0.0.1", 0, 1);
  File other = connectTo(placeOf(listener));
  EXPECT_FALSE(tcp::closeSelfConnection(other));
  EXPECT_TRUE(other);
  other = File();
  // A connection to itself, which the system may make if nobody listens.
  sockaddr_in own = {};
  own.sin_family = AF_INET;
  own.sin_port = htons(tcp::portOf(listener));
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  listener = File();
  File file(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto *address = reinterpret_cast<const sockaddr *>(&own);
  ASSERT_EQ(::bind(file.get(), address, sizeof(own)), 0);
  ASSERT_EQ(::connect(file.get(), address, sizeof(own)), 0);
  EXPECT_TRUE(tcp::closeSelfConnection(file));
  EXPECT_FALSE(file);
  // Rank 0 may listen there at once.
  EXPECT_TRUE(tcp::listenAt("127.0.0.1", ntohs(own.sin_port), 1));
}

/// Returns the error of rank 1 of job "a" if a connection is treated like this.
std::string errorAtRankZero(const std::function<void(const File &)> &answer) {
  File listener = tcp::listenAt("127.0.0.1", 0, 1);
  std::string place = placeOf(listener), text;
  std::thread rank([&] {
    text = errorOf([&] { tcp::open(optionsOf("a", 1, 2), meetAt(place)); });
  });
  answer(listener);
  rank.join();
  return text;
}

TEST(CommTcpWire, WhatAnswersAsNoRankDoesIsNamed) {
  File caller; // stays open, as that of a service that waits for more
  EXPECT_THAT(errorAtRankZero([&](const File &listener) {
                caller = callerAt(listener);
                tcp::writeAll(caller, "SSH-2.0-Other\r\n", 15, patience());
              }),
              AllOf(HasSubstr("the peer of rank 1 of job 'a' at 127.0.0.1:"),
                    HasSubstr(" is not rank 0; name another HOST:PORT")));
}

TEST(CommTcpWire, ALongRefusalIsReadWhole) {
  tcp::Reply reply;
  reply.isRefusal = 1;
  std::fill(std::begin(reply.text), std::end(reply.text), 'x');
  EXPECT_EQ(errorAtRankZero([&](const File &listener) {
              tcp::Callers callers(0, 2, {"a", ""});
              std::vector<pollfd> none;
              std::vector<tcp::Callers::Caller> ranks;
              while (ranks.empty())
                ranks = callers.look(listener, none, patience());
              tcp::writeAll(ranks[0].connection, &reply, sizeof(reply),
                            patience());
            }),
            std::string(sizeof(reply.text) - 1, 'x'));
}

/// Returns the error text of rank 0 of two when the other sends this frame.
std::string errorAfter(const tcp::Frame &frame) {
  std::string job = freshJob(),
              place = placeOf(tcp::listenAt("127.0.0.1", 0, 1));
  std::vector<tcp::Peer> peers;
  std::thread other([&] {
    peers = tcp::join(optionsOf(job, 1, 2), meetAt(place));
    tcp::writeAll(peers[0].connection, &frame, sizeof(frame), patience());
  });
  auto comm = makeCommunicator(tcp::open(optionsOf(job, 0, 2), meetAt(place)),
                               {20, nullptr, nullptr});
  other.join();
  Collective c;
  c.elements = 10;
  c.members = {0, 1};
  c.name = "grads";
  std::vector<float> source(10), result(10);
  return errorOf([&] { comm->run(c, source.data(), result.data()); });
}

TEST(CommTcpWire, FramesThatNoRankSendsEndTheConnection) {
  tcp::Frame frame;
  frame.kind = tcp::Frame::WaitsFor;
  const char text[] = "the received data are no message of a rank";
  for (int32_t rank : {2, -2, 1 << 30}) {
    frame.rank = rank;
    EXPECT_THAT(errorAfter(frame), HasSubstr(text));
  }
  frame.rank = -1;
  frame.kind = tcp::Frame::Kind(tcp::Frame::WaitsFor + 1);
  EXPECT_THAT(errorAfter(frame), HasSubstr(text));
  frame.kind = tcp::Frame::Closed;
  frame.length = 4097;
  EXPECT_THAT(errorAfter(frame), HasSubstr(text));
}

/// While it lives, this process cannot open files.
class NoFiles {
public:
  NoFiles() {
    ::getrlimit(RLIMIT_NOFILE, &before);
    rlimit none = before;
    none.rlim_cur = 0;
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoFiles() { ::setrlimit(RLIMIT_NOFILE, &before); }
  NoFiles(const NoFiles &) = delete;
  NoFiles &operator=(const NoFiles &) = delete;

private:
  rlimit before = {};
};

TEST(CommTcpWire, WithoutFilesRanksStopAtOnce) {
  File listener = tcp::listenAt("127.0.0.1", 0, 2);
  tcp::Place place = tcp::readPlace(placeOf(listener), "it");
  File caller = connectTo(placeOf(listener));
  std::vector<std::string> texts;
  {
    NoFiles none;
    tcp::Reason reason;
    texts = {errorOf([&] { tcp::acceptAt(listener); }),
             errorOf([&] { tcp::connectTo(place, patience(), reason); }),
             errorOf([] { tcp::listenAt("127.0.0.1", 0, 1); })};
  }
  EXPECT_THAT(texts,
              testing::Each(AllOf(HasSubstr("Too many open files; a rank has "),
                                  HasSubstr("(ulimit -n)"))));
  EXPECT_TRUE(tcp::acceptAt(listener));
  EXPECT_FALSE(tcp::acceptAt(listener)); // no caller waits
}
/// A rank that the test drives itself, from its hello to rank 0's answer.
struct Puppet {
  File host;
  std::vector<tcp::Entry> table;

  Puppet(const std::string &place, const std::string &job, int32_t rank,
         int32_t size, uint16_t port)
      : table(size_t(size)), job(job) {
    hello.magic = tcp::greetingMagic;
    hello.job = tcp::hashJobName(job);
    hello.rank = rank;
    hello.size = size;
    hello.process = 1;
    hello.port = port;
    tcp::Reason reason;
    Patience all = patience();
    while (!(host = tcp::connectTo(tcp::readPlace(place, "it"), all, reason)) &&
           !all.isOver())
      all.sleep();
    say(host, 0);
    tcp::Reply reply;
    EXPECT_TRUE(tcp::readAll(host, &reply, sizeof(reply), all));
    EXPECT_EQ(reply.isRefusal, 0);
    EXPECT_TRUE(tcp::readAll(host, table.data(),
                             table.size() * sizeof(tcp::Entry), all));
  }
  void say(const File &file, int32_t to) {
    hello.to = to;
    EXPECT_EQ(tcp::introduce(file, hello, {job, ""}, patience()),
              tcp::Answer::Accepted);
  }
  std::string placeOfRank(size_t rank) const {
    return "127.0.0.1:" + std::to_string(table[rank].port);
  }

private:
  std::string job;
  tcp::Hello hello = {};
};

/// The error texts of two ranks of three; the third is a puppet.
class TwoOfThree {
public:
  TwoOfThree(int32_t first, int32_t second) {
    for (int32_t rank : {first, second})
      threads.emplace_back([this, rank, at = threads.size()] {
        texts[at] = errorOf([&] {
          scalify_transport transport =
              tcp::open(optionsOf(job, rank, 3), meetAt(place));
          transport.close(transport.self);
        });
      });
  }
  std::vector<std::string> wait() {
    for (std::thread &thread : threads)
      thread.join();
    return texts;
  }

  const std::string job = freshJob(),
                    place = placeOf(tcp::listenAt("127.0.0.1", 0, 1));

private:
  std::vector<std::string> texts = {"", ""};
  std::vector<std::thread> threads;
};

TEST(CommTcpWire, WhoEndsBeforeItConnectsIsNamedByAll) {
  TwoOfThree others(0, 1);
  {
    Puppet ends(others.place, others.job, 2, 3, 1);
  }
  std::string text =
      "rank 2 ended while the ranks of job '" + others.job + "' joined";
  EXPECT_THAT(others.wait(),
              testing::ElementsAre(text, "rank 0 stopped: " + text));
}

TEST(CommTcpWire, WhoDoesNotListenIsNamedByAll) {
  TwoOfThree others(0, 2);
  uint16_t port = tcp::portOf(tcp::listenAt("127.0.0.1", 0, 1));
  Puppet deaf(others.place, others.job, 1, 3, port);
  EXPECT_THAT(others.wait(),
              testing::Each(HasSubstr(
                  "rank 2 cannot reach rank 1 at 127.0.0.1:" +
                  std::to_string(port) + ": Connection refused; it has")));
}

TEST(CommTcpWire, StrangersWhoSayNothingHoldNobodyUp) {
  TwoOfThree others(0, 1);
  Puppet last(others.place, others.job, 2, 3, 1);
  File stranger = connectTo(last.placeOfRank(1));
  File own = connectTo(last.placeOfRank(1));
  last.say(own, 1);
  tcp::Reply ready, go;
  tcp::writeAll(last.host, &ready, sizeof(ready), patience());
  EXPECT_TRUE(tcp::readAll(last.host, &go, sizeof(go), patience()));
  EXPECT_EQ(std::string(go.text), "");
  last.host = File();
  own = File();
  EXPECT_THAT(others.wait(), testing::Each(""));
}
} // namespace
