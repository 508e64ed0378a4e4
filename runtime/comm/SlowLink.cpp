#include "comm/SlowLink.h"
#include "comm/Message.h"
#include "support/Error.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>

using namespace scalify::rt;

namespace {
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// Half of the 0.1 s within which the poll must be called.
constexpr Seconds slice(0.05);
/// The longest delay of a collective: a day, which every clock can represent.
constexpr double longest = 86400;

[[noreturn]] void badLink(const std::string &text, const std::string &why) {
  badArgument("the environment's SCALIFY_COMM_LINK is '" + text + "': " + why +
              "; example: bandwidth=2e8,latency=1e-4,jitter=0.5,"
              "straggler=20:8,seed=1");
}

double readNumber(const std::string &text, const std::string &key,
                  const std::string &value) {
  char *end = nullptr;
  double number = std::strtod(value.c_str(), &end);
  if (value.empty() || *end || !std::isfinite(number) || number < 0)
    badLink(text,
            "'" + value + "' of " + key + " is not a number of at least 0");
  return number;
}

uint64_t readWhole(const std::string &text, const std::string &key,
                   const std::string &value) {
  double number = readNumber(text, key, value);
  if (number != std::floor(number) || number > 1e15)
    badLink(text, "'" + value + "' of " + key + " is not a whole number");
  return uint64_t(number);
}

void readField(Link &link, const std::string &text, const std::string &field) {
  size_t equals = field.find('=');
  std::string key = field.substr(0, equals);
  std::string value =
      equals == std::string::npos ? "" : field.substr(equals + 1);
  if (key == "bandwidth") {
    link.bandwidth = readNumber(text, key, value);
    if (link.bandwidth == 0)
      badLink(text, "a bandwidth of 0 transfers nothing");
  } else if (key == "latency") {
    link.latency = readNumber(text, key, value);
  } else if (key == "jitter") {
    link.jitter = readNumber(text, key, value);
  } else if (key == "seed") {
    link.seed = readWhole(text, key, value);
  } else if (key == "straggler") {
    size_t colon = value.find(':');
    if (colon == std::string::npos)
      badLink(text, "'" + value + "' of straggler is not every:factor");
    link.every = readWhole(text, key, value.substr(0, colon));
    link.factor = readNumber(text, key, value.substr(colon + 1));
    if (link.every == 0 || link.factor < 1)
      badLink(text,
              "'" + value + "' of straggler needs two numbers of at least 1");
  } else {
    badLink(text, "'" + key +
                      "' is none of bandwidth, latency, jitter, straggler "
                      "and seed");
  }
}

/// Returns the bytes that pass this rank's link one after the other: those it
/// sends or, if it only receives, those it receives.
int64_t bytesOnLink(const Collective &collective, int32_t rank) {
  int64_t sent = bytesSent(collective, rank);
  const bool hears = collective.kind >= Collective::Kind::Permute
                         ? collective.from >= 0 && collective.from != rank
                         : collective.kind == Collective::Kind::Broadcast &&
                               collective.members.size() > 1;
  if (sent == 0 && hears)
    return collective.elements * byteWidth(collective.type);
  return sent;
}

class SlowLink : public Communicator {
public:
  SlowLink(std::unique_ptr<Communicator> inner, const Link &link,
           int (*poll)(void *), void *context)
      : inner(std::move(inner)), link(link), poll(poll), context(context),
        random(link.seed) {}

  int32_t rank() const override { return inner->rank(); }
  int32_t size() const override { return inner->size(); }
  bool hasOthers() const override { return inner->hasOthers(); }
  uint64_t bytesSent() const override { return inner->bytesSent(); }
  void addBytesSent(uint64_t bytes) override { inner->addBytesSent(bytes); }
  double timeout() const override { return inner->timeout(); }
  void abort(const std::string &reason) override { inner->abort(reason); }
  void beginStep(uint64_t number, uint64_t program) override {
    step = number;
    isInterrupted = false;
    inner->beginStep(number, program);
  }
  void setPoll(int (*poll)(void *), void *context) override {
    this->poll = poll;
    this->context = context;
    inner->setPoll(poll, context);
  }
  void interrupt(const char *why) noexcept override {
    if (!isInterrupted) {
      std::snprintf(interruptReason.data(), interruptReason.size(), "%s", why);
      isInterrupted = true;
    }
    inner->interrupt(why);
  }

  void run(const Collective &collective, const void *source,
           void *destination) override {
    std::unique_lock<std::mutex> lock(inUse, std::try_to_lock);
    if (!lock)
      throw Error(SCALIFY_RT_BUSY,
                  "the communicator is in use on another thread");
    Clock::time_point start = Clock::now();
    inner->run(collective, source, destination);
    int64_t bytes = bytesOnLink(collective, rank());
    if (bytes == 0)
      return;
    Seconds time(std::min(secondsOf(bytes), longest));
    sleepUntil(start + std::chrono::duration_cast<Clock::duration>(time),
               collective);
  }

private:
  double secondsOf(int64_t bytes);
  void sleepUntil(Clock::time_point end, const Collective &collective);

  std::unique_ptr<Communicator> inner;
  Link link;
  int (*poll)(void *);
  void *context;
  std::mt19937_64 random;
  uint64_t crossed = 0, step = 0;
  std::mutex inUse;
  std::atomic<bool> isInterrupted{false};
  std::array<char, 1024> interruptReason =
      {}; // valid once isInterrupted is set
};

double SlowLink::secondsOf(int64_t bytes) {
  double seconds = link.latency + double(bytes) / link.bandwidth;
  // The standard library's distributions differ between implementations.
  seconds *= 1 + link.jitter * std::ldexp(double(random() >> 11), -53);
  if (link.every && ++crossed % link.every == 0)
    seconds *= link.factor;
  return seconds;
}

void SlowLink::sleepUntil(Clock::time_point end, const Collective &collective) {
  for (Clock::time_point now = Clock::now(); now < end; now = Clock::now()) {
    std::string why;
    if (isInterrupted)
      why = interruptReason.data();
    else if (poll && poll(context))
      why = "interrupted";
    if (!why.empty()) {
      std::string text = describe(collective, step) + ": " + why;
      inner->abort(text);
      throw Error(SCALIFY_RT_INTERRUPTED, text);
    }
    std::this_thread::sleep_for(std::min<Seconds>(end - now, slice));
  }
}
} // namespace

Link scalify::rt::parseLink(const std::string &text) {
  Link link;
  for (size_t at = 0; at <= text.size();) {
    size_t comma = std::min(text.find(',', at), text.size());
    readField(link, text, text.substr(at, comma - at));
    at = comma + 1;
  }
  return link;
}

std::unique_ptr<Communicator>
scalify::rt::makeSlowCommunicator(std::unique_ptr<Communicator> inner,
                                  const Link &link, int (*poll)(void *context),
                                  void *context) {
  return std::make_unique<SlowLink>(std::move(inner), link, poll, context);
}
