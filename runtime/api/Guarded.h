// Converts exceptions to status codes, for the whole C interface.
#ifndef SCALIFY_RUNTIME_API_GUARDED_H
#define SCALIFY_RUNTIME_API_GUARDED_H

#include "support/Error.h"

#include <new>

namespace scalify::rt {

/// Returns the text of the calling thread's last failure.
inline std::string &lastError() {
  thread_local std::string text;
  return text;
}

inline scalify_rt_status failed(scalify_rt_status status, const char *text) {
  try {
    lastError() = text;
  } catch (...) {
    lastError().clear();
  }
  return status;
}

/// Runs `body` and converts its exceptions to a status.
template <typename Fn> scalify_rt_status guarded(Fn body) {
  try {
    body();
    return SCALIFY_RT_OK;
  } catch (const Error &error) {
    return failed(error.status, error.what());
  } catch (const std::bad_alloc &) {
    return failed(SCALIFY_RT_INTERNAL, "out of memory");
  } catch (const std::exception &error) {
    return failed(SCALIFY_RT_INTERNAL, error.what());
  } catch (...) {
    return failed(SCALIFY_RT_INTERNAL, "unknown failure");
  }
}

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_API_GUARDED_H
