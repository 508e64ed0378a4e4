// The runtime's only exception. It never crosses the C interface: every entry
// point turns it into a status code and keeps the text for the caller.
#ifndef SCALIFY_RUNTIME_SUPPORT_ERROR_H
#define SCALIFY_RUNTIME_SUPPORT_ERROR_H

#include "scalify/runtime.h"

#include <stdexcept>
#include <string>

namespace scalify::rt {

class Error : public std::runtime_error {
public:
  Error(scalify_rt_status status, const std::string &text)
      : std::runtime_error(text), status(status) {}
  scalify_rt_status status;
};

[[noreturn]] inline void badArtefact(const std::string &text) {
  throw Error(SCALIFY_RT_BAD_ARTEFACT, text);
}
[[noreturn]] inline void badArgument(const std::string &text) {
  throw Error(SCALIFY_RT_BAD_ARGUMENT, text);
}
[[noreturn]] inline void unsupported(const std::string &text) {
  throw Error(SCALIFY_RT_UNSUPPORTED, text);
}

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_SUPPORT_ERROR_H
