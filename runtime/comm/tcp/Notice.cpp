#include "comm/tcp/Notice.h"
#include "comm/Secret.h"
#include "comm/tcp/Greeting.h"
#include "support/Error.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <memory>
#include <sstream>
#include <unistd.h>

using namespace scalify::rt;
using namespace scalify::rt::tcp;

namespace {
const char noSecret[] = "-";

/// Creates a file that only this user may read.
void write(const std::string &name, const std::string &text) {
  File file(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                   S_IRUSR | S_IWUSR));
  if (!file ||
      ::write(file.get(), text.data(), text.size()) != ssize_t(text.size()))
    failedCall("write the file '" + name + "'");
}
} // namespace

NoticeFile::NoticeFile(std::string name, const std::string &job,
                       const Notice &notice)
    : path(std::move(name)) {
  char machine[256] = "";
  if (::gethostname(machine, sizeof(machine) - 1))
    failedCall("ask for this machine's name");
  std::string host = notice.place.host.empty() ? machine : notice.place.host;
  std::string text = "scalify " + std::to_string(notice.place.port) + " " +
                     host + " " + std::to_string(hashJobName(job)) + " " +
                     (notice.secret.empty() ? noSecret : notice.secret) + "\n";
  // Created by a link, so that it is complete at once and overwrites no file.
  std::string draft = path + "." + machine + "." + std::to_string(::getpid());
  write(draft, text);
  int code = ::link(draft.c_str(), path.c_str());
  int reason = errno;
  (void)::unlink(draft.c_str());
  if (code && reason == EEXIST)
    failed("rank 0 finds the file '" + path +
           "', which another launch has left or uses: remove it, or name "
           "another one in SCALIFY_RENDEZVOUS");
  errno = reason;
  if (code)
    failedCall("write the file '" + path + "' with rank 0's address");
}

NoticeFile::~NoticeFile() { (void)::unlink(path.c_str()); }

bool tcp::readNotice(const std::string &path, const std::string &job,
                     int32_t rank, Notice &notice) {
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(
      std::fopen(path.c_str(), "re"), std::fclose);
  if (!file && errno == ENOENT)
    return false;
  if (!file)
    failedCall("read the file '" + path + "' with rank 0's address");
  char text[512] = "";
  size_t count = std::fread(text, 1, sizeof(text) - 1, file.get());
  std::istringstream words(std::string(text, count));
  std::string first;
  uint64_t hash = 0;
  words >> first >> notice.place.port >> notice.place.host >> hash >>
      notice.secret;
  const std::string found =
      "rank " + std::to_string(rank) + " finds the file '" + path + "'";
  if (!words || first != "scalify")
    failed(found + ", which rank 0 did not write: name another one in "
                   "SCALIFY_RENDEZVOUS");
  if (hash != hashJobName(job))
    failed(found + " of another job than '" + job +
           "': remove it if an earlier launch has left it, or name another "
           "one in SCALIFY_RENDEZVOUS");
  if (notice.secret == noSecret)
    notice.secret.clear();
  else if (std::string why = describeExposure(file.get()); !why.empty())
    failed(found + " with the job's secret, which " + why +
           "; if this file system cannot help it, " + secretWayOut);
  return true;
}
