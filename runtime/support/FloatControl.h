// The treatment of subnormal numbers and the rounding of a thread's float
// instructions.
#ifndef SCALIFY_RUNTIME_SUPPORT_FLOATCONTROL_H
#define SCALIFY_RUNTIME_SUPPORT_FLOATCONTROL_H

#include <cfenv>

namespace scalify::rt {

/// Lets the thread's float instructions follow IEEE 754 for the life of the
/// object. A caller may have set them to flush subnormal numbers, as XLA does
/// around a custom call. Threads of a pool would not, so the thread that
/// happens to run a task would decide on its result.
class ScopedFloatControl {
public:
  ScopedFloatControl() {
    std::fegetenv(&previous);
    std::fesetenv(FE_DFL_ENV);
  }
  ~ScopedFloatControl() { std::fesetenv(&previous); }
  ScopedFloatControl(const ScopedFloatControl &) = delete;
  ScopedFloatControl &operator=(const ScopedFloatControl &) = delete;

private:
  std::fenv_t previous;
};

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_SUPPORT_FLOATCONTROL_H
