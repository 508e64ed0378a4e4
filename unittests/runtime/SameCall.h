// Compares our declarations of a library's calls with its own, by types.
#ifndef SCALIFY_UNITTESTS_RUNTIME_SAMECALL_H
#define SCALIFY_UNITTESTS_RUNTIME_SAMECALL_H

#include <cstdint>
#include <type_traits>

namespace scalify::test {

enum class Class : uint8_t { Void, Pointer, Integer, Float, Object };

template <typename T> constexpr Class classOf() {
  return std::is_void_v<T>             ? Class::Void
         : std::is_pointer_v<T>        ? Class::Pointer
         : std::is_floating_point_v<T> ? Class::Float
         : std::is_class_v<T>          ? Class::Object
                                       : Class::Integer;
}

/// True if calls through both types pass their values identically: the types'
/// names do not matter.
template <typename A, typename B> constexpr bool passAlike() {
  if constexpr (std::is_void_v<A> || std::is_void_v<B>)
    return std::is_void_v<A> && std::is_void_v<B>;
  else
    return sizeof(A) == sizeof(B) && classOf<A>() == classOf<B>();
}

template <typename A, typename B> struct SameCall : std::false_type {};
template <typename R, typename S, typename... A, typename... B>
struct SameCall<R(A...), S(B...)> {
  static constexpr bool check() {
    if constexpr (sizeof...(A) != sizeof...(B))
      return false;
    else
      return passAlike<R, S>() && (passAlike<A, B>() && ...);
  }
  static constexpr bool value = check();
};

} // namespace scalify::test

#endif // SCALIFY_UNITTESTS_RUNTIME_SAMECALL_H
