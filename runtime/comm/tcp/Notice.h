// The file by which rank 0 tells the others its address.
#ifndef SCALIFY_RUNTIME_COMM_TCP_NOTICE_H
#define SCALIFY_RUNTIME_COMM_TCP_NOTICE_H

#include "comm/tcp/Sockets.h"

namespace scalify::rt::tcp {

/// The content of the file. Without a secret from the environment rank 0 makes
/// one: whoever may read the file is of the job.
struct Notice {
  Place place;
  std::string secret; // "" if the ranks have it from their environment
};

/// Rank 0's file. It exists while the ranks join, and is removed however that
/// ends, except by a kill.
class NoticeFile {
public:
  /// Throws an Error if the file exists.
  NoticeFile(std::string name, const std::string &job, const Notice &notice);
  ~NoticeFile();
  NoticeFile(const NoticeFile &) = delete;
  NoticeFile &operator=(const NoticeFile &) = delete;

private:
  std::string path;
};

/// Reads the file into `notice`; returns false if the file does not exist yet.
/// Throws an Error for another job's file, which an earlier launch left, and
/// for a secret that others may read.
bool readNotice(const std::string &path, const std::string &job, int32_t rank,
                Notice &notice);

} // namespace scalify::rt::tcp

#endif // SCALIFY_RUNTIME_COMM_TCP_NOTICE_H
