// Ranks over TCP prove to one another that they are of the job: what does not
// is refused, and the ranks wait on.
#include "CommChecks.h"
#include "CommRanks.h"
#include "NcclRanks.h"
#include "comm/Secret.h"
#include "comm/TransportCommunicator.h"
#include "comm/tcp/Callers.h"
#include "comm/tcp/Introduction.h"
#include "comm/tcp/TcpTransport.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>

using namespace scalify::rt;
using namespace scalify::test;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

namespace {
constexpr const char *secret = "Tg6vbQ4H0w2uFzX1";
constexpr const char *otherSecret = "q9Xv0KJd8sRm3LpA";
constexpr double joinSeconds = 20;

Patience patience() {
  return Patience(scalify_transport_wait{joinSeconds, nullptr, nullptr});
}

std::string freePlace() {
  File file = tcp::listenAt("127.0.0.1", 0, 1);
  return "127.0.0.1:" + std::to_string(tcp::portOf(file));
}

/// A rank that joins, checks its collectives if there are two, and leaves.
std::string join(const Meeting &meeting, int32_t rank, int32_t size,
                 double seconds = joinSeconds) {
  scalify_transport_options options = {};
  options.version = SCALIFY_TRANSPORT_VERSION;
  options.rank = rank;
  options.size = size;
  options.job = meeting.job.c_str();
  options.wait.seconds = seconds;
  return scalify::rt::test::errorOf([&] {
    auto comm = makeCommunicator(tcp::open(options, meeting),
                                 {joinSeconds, nullptr, nullptr});
    std::string text = checkSmall(*comm);
    if (!text.empty())
      failed(text);
  });
}

/// Ranks 0 and 2 of three, which wait for rank 1. Captures what they log.
class TwoWait {
public:
  explicit TwoWait(std::string secret = ::secret) {
    meeting.place = freePlace();
    meeting.job = freshJob();
    meeting.secret = std::move(secret);
    testing::internal::CaptureStderr();
    for (int32_t rank : {0, 2})
      threads.emplace_back(
          [this, rank] { texts[size_t(rank)] = join(meeting, rank, 3); });
  }
  /// Rank 1 joins: all three must get on. Returns the log.
  std::string finish() {
    texts[1] = join(meeting, 1, 3);
    for (std::thread &thread : threads)
      thread.join();
    std::string log = testing::internal::GetCapturedStderr();
    EXPECT_THAT(texts, Each(""));
    EXPECT_THAT(log, Not(HasSubstr(secret)));
    EXPECT_THAT(log, Not(HasSubstr(otherSecret)));
    return log;
  }
  File connect() const {
    tcp::Reason reason;
    Patience all = patience();
    File file;
    while (!(file = tcp::connectTo(tcp::readPlace(meeting.place, "it"), all,
                                   reason)) &&
           !all.isOver())
      all.sleep();
    return file;
  }

  Meeting meeting;

private:
  std::vector<std::thread> threads;
  std::vector<std::string> texts = {"", "", ""};
};

tcp::Hello helloOf(const Meeting &meeting) {
  tcp::Hello hello = {};
  hello.magic = tcp::greetingMagic;
  hello.job = tcp::hashJobName(meeting.job);
  hello.rank = 1;
  hello.size = 3;
  hello.nonce = tcp::makeNonce();
  return hello;
}

/// Returns what the peer sends until it closes.
std::string readToEnd(const File &file) {
  std::string text;
  char byte = 0;
  while (tcp::readAll(file, &byte, 1, patience()))
    text += byte;
  return text;
}

tcp::Verdict::Code sendHello(const File &file, const tcp::Hello &hello) {
  tcp::Verdict verdict;
  tcp::writeAll(file, &hello, sizeof(hello), patience());
  EXPECT_TRUE(tcp::readAll(file, &verdict, sizeof(verdict), patience()));
  return verdict.code;
}

tcp::Challenge readChallenge(const File &file) {
  tcp::Challenge challenge;
  EXPECT_TRUE(tcp::readAll(file, &challenge, sizeof(challenge), patience()));
  return challenge;
}

TEST(CommTcpSecret, RanksOfOneSecretJoin) { EXPECT_EQ(TwoWait().finish(), ""); }

TEST(CommTcpSecret, OtherSecretsAndNoneAreRefused) {
  for (const std::string &wrong : {std::string(otherSecret), std::string()}) {
    TwoWait ranks;
    Meeting meeting = ranks.meeting;
    meeting.secret = wrong;
    EXPECT_THAT(join(meeting, 1, 3),
                AllOf(HasSubstr("rank 0 at " + meeting.place +
                                " and rank 1 of job '" + meeting.job +
                                "' have other secrets: give all ranks the "
                                "same one, by export SCALIFY_SECRET="),
                      Not(HasSubstr(secret)), Not(HasSubstr(otherSecret))));
    EXPECT_EQ(ranks.finish(),
              "scalify: rank 0 refuses a connection from 127.0.0.1: it does "
              "not prove that it knows the job's secret (1)\n");
  }
  TwoWait without("");
  Meeting meeting = without.meeting;
  meeting.secret = secret;
  EXPECT_THAT(join(meeting, 1, 3), HasSubstr("have other secrets"));
  without.finish();
}

TEST(CommTcpSecret, AReplayedGreetingIsRefused) {
  TwoWait ranks;
  File first = ranks.connect(), second = ranks.connect();
  tcp::Challenge challenge = readChallenge(first);
  EXPECT_NE(readChallenge(second).nonce, challenge.nonce);
  tcp::Hello hello = helloOf(ranks.meeting);
  hello.proof = tcp::prove(tcp::Side::Caller, {ranks.meeting.job, secret},
                           challenge.nonce, hello);
  // It would be accepted where its challenge came from.
  EXPECT_EQ(sendHello(second, hello), tcp::Verdict::OtherSecret);
  EXPECT_THAT(ranks.finish(), HasSubstr("(1)\n"));
}

TEST(CommTcpSecret, AProofIsOfOneGreetingOnly) {
  using Change = std::function<void(tcp::Hello &)>;
  const std::vector<Change> changes = {
      [](tcp::Hello &hello) { hello.rank = 2; },
      [](tcp::Hello &hello) { hello.to = 1; },
      [](tcp::Hello &hello) { ++hello.port; },
      [](tcp::Hello &hello) { hello.nonce[31] ^= 1; },
      [](tcp::Hello &hello) { hello.proof[0] ^= 1; },
      [](tcp::Hello &hello) { hello.proof = {}; }};
  TwoWait ranks;
  for (const Change &change : changes) {
    File file = ranks.connect();
    tcp::Hello hello = helloOf(ranks.meeting);
    hello.proof = tcp::prove(tcp::Side::Caller, {ranks.meeting.job, secret},
                             readChallenge(file).nonce, hello);
    change(hello);
    EXPECT_EQ(sendHello(file, hello), tcp::Verdict::OtherSecret);
  }
  ranks.finish();
  // A proof of the listener, or of another job, is not that of a caller.
  tcp::Hello hello = helloOf(ranks.meeting);
  tcp::Proof proof =
      tcp::prove(tcp::Side::Caller, {"a", secret}, hello.nonce, hello);
  EXPECT_FALSE(tcp::isSame(proof, tcp::prove(tcp::Side::Listener, {"a", secret},
                                             hello.nonce, hello)));
  EXPECT_FALSE(tcp::isSame(
      proof, tcp::prove(tcp::Side::Caller, {"b", secret}, hello.nonce, hello)));
  EXPECT_TRUE(tcp::isSame(
      proof, tcp::prove(tcp::Side::Caller, {"a", secret}, hello.nonce, hello)));
}

// The expected bytes are those of Python's hmac.
TEST(CommTcpSecret, AProofIsAnHmacOfSha256) {
  tcp::Hello hello = {tcp::greetingMagic, 7, 1, 2, 3, 0, 19500, {}, {}};
  tcp::Nonce challenge;
  for (uint8_t i = 0; i < 32; ++i) {
    challenge[i] = i;
    hello.nonce[i] = uint8_t(32 + i);
  }
  std::string text;
  for (uint8_t byte :
       tcp::prove(tcp::Side::Caller, {"a", secret}, challenge, hello))
    for (int digit : {byte >> 4, byte & 15})
      text += "0123456789abcdef"[digit];
  EXPECT_EQ(text, "54124795ef720dd5262b70360726fdff"
                  "3c47be591ed26474ea05c7783f2abc98");
}

TEST(CommTcpSecret, WhoListensMustProveItself) {
  // It knows the greeting, and answers a caller's proof with that same proof.
  File listener = tcp::listenAt("127.0.0.1", 0, 1);
  Meeting meeting;
  meeting.place = "127.0.0.1:" + std::to_string(tcp::portOf(listener));
  meeting.job = freshJob();
  meeting.secret = secret;
  std::string text;
  std::thread rank([&] { text = join(meeting, 1, 2); });
  std::vector<pollfd> files = {{listener.get(), POLLIN, 0}};
  while (!files[0].revents)
    patience().waitFor(files);
  File caller = tcp::acceptAt(listener);
  const tcp::Challenge challenge;
  tcp::writeAll(caller, &challenge, sizeof(challenge), patience());
  tcp::Hello hello = {};
  EXPECT_TRUE(tcp::readAll(caller, &hello, sizeof(hello), patience()));
  tcp::Verdict verdict;
  verdict.proof = hello.proof;
  tcp::writeAll(caller, &verdict, sizeof(verdict), patience());
  rank.join();
  EXPECT_THAT(text, HasSubstr("have other secrets"));
}

TEST(CommTcpSecret, GarbageIsRefusedAndNobodyDisturbed) {
  TwoWait ranks;
  const std::string texts[] = {
      "GET / HTTP/1.1\r\nHost: rank0\r\n\r\n", std::string(4096, '\xff'),
      // The start of a greeting, and no more.
      std::string("scal").append("tcp3").append(50, 'x'), ""};
  std::vector<File> open;
  for (const std::string &text : texts) {
    File &file = open.emplace_back(ranks.connect());
    readChallenge(file);
    tcp::writeAll(file, text.data(), text.size(), patience());
  }
  for (size_t i : {0, 1})
    EXPECT_EQ(readToEnd(open[i]), "");
  ::shutdown(open[3].get(), SHUT_WR);
  EXPECT_EQ(readToEnd(open[3]), "");
  std::string log = ranks.finish();
  EXPECT_THAT(log, HasSubstr("127.0.0.1: it sent no greeting of a rank (1)"));
  EXPECT_THAT(log, HasSubstr("127.0.0.1: it has closed the connection (3)"));
}

TEST(CommTcpSecret, AFloodOfSilentConnectionsStarvesNobody) {
  TwoWait ranks;
  // Half open: they never send a byte, and stay.
  std::vector<File> silent;
  for (size_t i = 0; i < 3 * tcp::Callers::spare; ++i)
    silent.push_back(ranks.connect());
  // While the true rank comes, more do, until rank 0 listens no more.
  std::thread more([&] {
    tcp::Reason reason;
    for (File file;
         (file = tcp::connectTo(tcp::readPlace(ranks.meeting.place, "it"),
                                patience(), reason)) &&
         silent.size() < 6 * tcp::Callers::spare;)
      silent.push_back(std::move(file));
  });
  std::string log = ranks.finish();
  more.join();
  EXPECT_THAT(log, HasSubstr("it has not greeted, and others wait (64)"));
  // The first eight, then the powers of two.
  EXPECT_LT(std::count(log.begin(), log.end(), '\n'), 20);
}

TEST(CommTcpSecret, SilentConnectionsEndByTime) {
  File listener = tcp::listenAt("127.0.0.1", 0, 1);
  tcp::Reason reason;
  File silent =
      tcp::connectTo({"127.0.0.1", tcp::portOf(listener)}, patience(), reason);
  tcp::Callers callers(0, 2, {"a", secret}, 0.1);
  std::vector<pollfd> none;
  testing::internal::CaptureStderr();
  Patience all = patience();
  while (callers.refusals().empty() && !all.isOver())
    EXPECT_TRUE(callers.look(listener, none, all).empty());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("127.0.0.1: it sent no greeting in time (1)"));
  EXPECT_THAT(callers.refusals(),
              HasSubstr("; 1 connections were refused, the last from 127."));
}

TEST(CommTcpSecret, WhoWaitsInVainTellsOfRefusals) {
  Meeting meeting;
  meeting.place = freePlace();
  meeting.job = freshJob();
  meeting.secret = secret;
  testing::internal::CaptureStderr();
  std::string text;
  std::thread host([&] { text = join(meeting, 0, 2, 1); });
  Meeting other = meeting;
  other.secret = otherSecret;
  join(other, 1, 2);
  host.join();
  testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, AllOf(HasSubstr("rank 1 has not joined job"),
                          HasSubstr("1 connections were refused, the last from "
                                    "127.0.0.1: it does not prove")));
}

TEST(CommTcpSecret, OverANetworkASecretIsRequired) {
  Meeting meeting;
  meeting.job = "a";
  for (const char *place : {"192.0.2.1:19500", "rank0.example:19500"})
    for (int32_t rank : {0, 1}) {
      meeting.place = place;
      EXPECT_THAT(join(meeting, rank, 2, 0.2),
                  HasSubstr("need a secret, since anyone may connect there: "
                            "give all ranks the same one, by export "
                            "SCALIFY_SECRET=$(head -c 32 /dev/urandom"));
    }
  meeting.place = "127.0.0.1:19500";
  meeting.interface = "0.0.0.0";
  EXPECT_THAT(join(meeting, 1, 2, 0.2), HasSubstr("need a secret"));
  // With one it is missed no more.
  meeting.secret = secret;
  EXPECT_THAT(join(meeting, 1, 2, 0.2), HasSubstr("cannot reach rank 0"));
}

TEST(CommTcpSecret, RanksListenWhereTheyAreTold) {
  auto reaches = [](const std::string &place, const std::string &interface,
                    const std::string &host) {
    Meeting meeting;
    meeting.place = place;
    meeting.job = freshJob();
    meeting.secret = secret;
    meeting.interface = interface;
    std::string text;
    std::thread rank([&] { text = join(meeting, 0, 2, 0.3); });
    tcp::Reason reason;
    tcp::Place at = {host, tcp::readPlace(place, "it").port};
    Patience all = patience();
    bool isReached = false;
    for (int turn = 0; turn < 15 && !isReached; ++turn, all.sleep())
      isReached = bool(tcp::connectTo(at, all, reason));
    rank.join();
    EXPECT_THAT(text, HasSubstr("rank 1 has not joined job"));
    return isReached;
  };
  testing::internal::CaptureStderr();
  EXPECT_TRUE(reaches(freePlace(), "", "127.0.0.1"));
  EXPECT_FALSE(reaches(freePlace(), "", "127.0.0.2"));
  EXPECT_TRUE(reaches(freePlace(), "127.0.0.2", "127.0.0.2"));
  EXPECT_FALSE(reaches(freePlace(), "lo", "127.0.0.2"));
  EXPECT_TRUE(reaches(freePlace(), "0.0.0.0", "127.0.0.2"));
  testing::internal::GetCapturedStderr();
  Meeting meeting;
  meeting.place = freePlace();
  meeting.interface = "absent7";
  EXPECT_THAT(join(meeting, 0, 2),
              AllOf(HasSubstr("SCALIFY_INTERFACE is 'absent7', neither an "
                              "address nor an interface of this machine"),
                    HasSubstr("lo")));
}

TEST(CommTcpSecret, RankZeroMakesTheSecretOfAFile) {
  std::string path =
      (std::filesystem::temp_directory_path() / freshJob()).string();
  Meeting meeting;
  meeting.place = "file:" + path;
  meeting.job = freshJob();
  meeting.isOneMachine = true;
  std::vector<std::string> texts(2);
  std::thread host([&] { texts[0] = join(meeting, 0, 2); });
  while (!std::filesystem::exists(path))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  struct stat about = {};
  EXPECT_EQ(::stat(path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777u, 0600u);
  std::string words[5];
  std::ifstream file(path);
  for (std::string &word : words)
    file >> word;
  EXPECT_EQ(words[2], "127.0.0.1");
  EXPECT_EQ(words[4].size(), 64U);
  // A rank that cannot read the file's secret is refused, if it was shown.
  ::chmod(path.c_str(), 0644);
  EXPECT_THAT(join(meeting, 1, 2),
              AllOf(HasSubstr("with the job's secret, which is open to other "
                              "users: it has mode 0644, not 0600"),
                    Not(HasSubstr(words[4]))));
  ::chmod(path.c_str(), 0600);
  texts[1] = join(meeting, 1, 2);
  host.join();
  EXPECT_THAT(texts, Each(""));
  EXPECT_NE(makeSecret(), makeSecret());
}
} // namespace
