#include "CommRanks.h"
#include "comm/TransportCommunicator.h"
#include "comm/local/LocalTransport.h"

#include <atomic>
#include <csignal>
#include <cstring>
#include <poll.h>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace scalify::rt;
using namespace scalify::test;

std::string scalify::test::freshJob() {
  static std::atomic<int> number{0};
  return "test-" + std::to_string(::getpid()) + "-" + std::to_string(number++);
}

scalify_transport scalify::test::openLocal(const std::string &job, int32_t rank,
                                           int32_t size, double seconds) {
  scalify_transport_options options = {};
  options.version = SCALIFY_TRANSPORT_VERSION;
  options.rank = rank;
  options.size = size;
  options.job = job.c_str();
  options.wait.seconds = seconds;
  return local::open(options);
}

std::unique_ptr<Communicator> scalify::test::joinLocal(const std::string &job,
                                                       int32_t rank,
                                                       int32_t size,
                                                       double seconds) {
  scalify_transport_wait wait = {seconds, nullptr, nullptr};
  return makeCommunicator(openLocal(job, rank, size, 20), wait);
}

void scalify::test::repeat(const Collective &collective, const void *source,
                           void *destination) {
  auto bytes = size_t(collective.elements * byteWidth(collective.type));
  for (size_t i = 0; i < collective.members.size(); ++i)
    std::memcpy(static_cast<uint8_t *>(destination) + i * bytes, source, bytes);
}

namespace {
std::string runRank(const std::string &job, int32_t rank, int32_t size,
                    const Body &body, double seconds) {
  try {
    return body(*joinLocal(job, rank, size, seconds));
  } catch (const std::exception &error) {
    return error.what();
  }
}
} // namespace

std::vector<std::string>
scalify::test::runThreads(int32_t size, const Body &body, double seconds) {
  std::string job = freshJob();
  std::vector<std::string> texts(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      texts[size_t(rank)] = runRank(job, rank, size, body, seconds);
    });
  for (std::thread &thread : threads)
    thread.join();
  return texts;
}

std::vector<std::string>
scalify::test::runProcesses(int32_t size, const Body &body, double seconds) {
  return Processes(size, body, seconds).wait();
}

Processes::Processes(int32_t size, const Body &body, double seconds) {
  std::string job = freshJob();
  for (int32_t rank = 0; rank < size; ++rank) {
    int ends[2];
    if (::pipe(ends))
      throw std::runtime_error("pipe failed");
    pid_t process = ::fork();
    if (process == 0) {
      ::close(ends[0]);
      std::string text = runRank(job, rank, size, body, seconds);
      ssize_t written = ::write(ends[1], text.data(), text.size());
      ::_exit(written == ssize_t(text.size()) ? 0 : 1);
    }
    ::close(ends[1]);
    ranks.push_back({process, ends[0]});
  }
}

std::vector<std::string> Processes::wait() {
  std::vector<std::string> texts;
  for (Rank &rank : ranks) {
    std::string text;
    char bytes[4096];
    pollfd file = {rank.output, POLLIN, 0};
    for (;;) {
      if (::poll(&file, 1, 30'000) != 1) {
        ::kill(rank.process, SIGKILL);
        text = "hangs";
        break;
      }
      ssize_t count = ::read(rank.output, bytes, sizeof(bytes));
      if (count <= 0)
        break;
      text.append(bytes, size_t(count));
    }
    ::close(rank.output);
    int status = 0;
    ::waitpid(rank.process, &status, 0);
    if (WIFSIGNALED(status) && text.empty())
      text = "killed by signal " + std::to_string(WTERMSIG(status));
    texts.push_back(text);
  }
  ranks.clear();
  return texts;
}

Processes::~Processes() {
  for (const Rank &rank : ranks)
    ::kill(rank.process, SIGKILL);
  wait();
}
