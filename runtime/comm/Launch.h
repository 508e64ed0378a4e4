// What the environment says of the launch: which rank this is, of how many.
#ifndef SCALIFY_RUNTIME_COMM_LAUNCH_H
#define SCALIFY_RUNTIME_COMM_LAUNCH_H

#include <cstdint>
#include <optional>
#include <string>

namespace scalify::rt {

struct Launch {
  int32_t rank = 0, size = 1;
  /// The transport that suits it.
  std::string transport = "local";
};

/// Throws Error where the environment contradicts itself.
Launch readLaunch();

/// The name that all ranks of the launch know it by; throws Error that says
/// what to set where there is none.
std::string readJob();

/// Where ranks of transport `tcp` meet, "HOST:PORT" or "file:PATH", and the
/// name of their job.
struct Meeting {
  std::string place, job;
};

/// Throws Error that says what to set where nothing says where to meet.
Meeting readMeeting();

/// This rank's number among those of its machine.
struct LocalRank {
  int32_t rank = 0;
  std::string variable; // that says so
};

/// Nothing where the environment does not say.
std::optional<LocalRank> readLocalRank();

/// Seconds that a rank may be late.
double readTimeout();

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_COMM_LAUNCH_H
