// Launch parameters from the environment: this rank, the number of ranks, and
// how they meet.
#ifndef SCALIFY_RUNTIME_COMM_LAUNCH_H
#define SCALIFY_RUNTIME_COMM_LAUNCH_H

#include <cstdint>
#include <optional>
#include <string>

namespace scalify::rt {

struct Launch {
  int32_t rank = 0, size = 1;
  /// The transport that suits the launch.
  std::string transport = "local";
};

/// Throws an Error if the environment is contradictory.
Launch readLaunch();

/// Returns the job's name, which all ranks of the launch share. Without one,
/// throws an Error that says which variable to set.
std::string readJob();

/// How ranks of transport `tcp` meet.
struct Meeting {
  /// "HOST:PORT", where rank 0 listens, or "file:PATH", a file that all ranks
  /// see and in which rank 0 writes its address.
  std::string place;
  std::string job;
  /// By which ranks prove that they are of the job; "" for none.
  std::string secret;
  /// The network interface that the ranks use, or its address; "" for that of
  /// rank 0's address.
  std::string interface;
  /// True if the launcher says that all ranks are on one machine.
  bool isOneMachine = false;
};

/// Without a meeting point, throws an Error that says which variable to set.
Meeting readMeeting();

/// This rank's number among those of its machine.
struct LocalRank {
  int32_t rank = 0;
  std::string variable; // that has it
};

/// Returns nullopt if the environment does not specify it.
std::optional<LocalRank> readLocalRank();

/// Returns the seconds by which a rank may be late.
double readTimeout();

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_COMM_LAUNCH_H
