// The secret by which ranks of transport `tcp` prove that they are of one job.
// Its text is in no error and no log.
#ifndef SCALIFY_RUNTIME_COMM_SECRET_H
#define SCALIFY_RUNTIME_COMM_SECRET_H

#include <cstdio>
#include <string>

namespace scalify::rt {

/// Returns the secret of SCALIFY_SECRET, or of the file that
/// SCALIFY_SECRET_FILE names; "" if neither is set. Throws an Error if it is
/// too short, or if others may read the file.
std::string readSecret();

/// Returns a new secret as text.
std::string makeSecret();

/// Returns why other users may know what the open file contains, or "".
std::string describeExposure(std::FILE *file);

/// Ends an error: how to give all ranks one secret.
extern const char secretWayOut[];

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_COMM_SECRET_H
