#include "comm/tcp/Introduction.h"

using namespace scalify::rt;
using namespace scalify::rt::tcp;

namespace {
/// Reads a message, its magic first: another service may send less and wait.
template <typename T>
Answer readMessage(const File &connection, T &message, const Patience &patience,
                   const std::function<void()> &idle) {
  constexpr size_t first = sizeof(message.magic);
  auto *bytes = reinterpret_cast<char *>(&message);
  auto read = [&](size_t from, size_t to) {
    return readAll(connection, bytes + from, to - from, patience, 2, idle);
  };
  if (read(0, first) && message.magic != greetingMagic)
    return Answer::Foreign;
  if (message.magic == greetingMagic && read(first, sizeof(message)))
    return Answer::Accepted;
  return patience.isOver(2) ? Answer::Silent : Answer::Ended;
}
} // namespace

Answer tcp::introduce(const File &connection, Hello hello,
                      const Knowledge &knowledge, const Patience &patience,
                      const std::function<void()> &idle) {
  Challenge challenge = {0, {}};
  Answer answer = readMessage(connection, challenge, patience, idle);
  if (answer != Answer::Accepted)
    return answer;
  hello.nonce = makeNonce();
  hello.proof = prove(Side::Caller, knowledge, challenge.nonce, hello);
  if (!writeAll(connection, &hello, sizeof(hello), patience))
    return Answer::Ended;
  Verdict verdict;
  verdict.magic = 0;
  answer = readMessage(connection, verdict, patience, idle);
  if (answer != Answer::Accepted)
    return answer;
  if (verdict.code == Verdict::OtherJob)
    return Answer::OtherJob;
  bool isProved = verdict.code == Verdict::Accepted &&
                  isSame(verdict.proof, prove(Side::Listener, knowledge,
                                              challenge.nonce, hello));
  return isProved ? Answer::Accepted : Answer::OtherSecret;
}
