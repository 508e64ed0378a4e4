// Proofs that a rank knows the job's secret: HMAC-SHA-256 over its greeting.
#ifndef SCALIFY_RUNTIME_COMM_TCP_PROOF_H
#define SCALIFY_RUNTIME_COMM_TCP_PROOF_H

#include "comm/tcp/Greeting.h"

namespace scalify::rt::tcp {

/// A rank's knowledge of its job. Without a secret its proofs prove nothing.
struct Knowledge {
  std::string job, secret;
};

/// The two ends of a connection: the one that connected, and the one that
/// listened. A proof of one is none of the other.
enum class Side { Caller, Listener };

/// Returns bytes that were never used before.
Nonce makeNonce();

/// Returns the proof of `side` over the whole greeting: the listener's nonce,
/// and the hello with the caller's nonce, both ranks and the port. Throws an
/// Error if libcrypto cannot be opened.
Proof prove(Side side, const Knowledge &knowledge, const Nonce &challenge,
            const Hello &hello);

/// Compares in a time that does not depend on the bytes.
bool isSame(const Proof &a, const Proof &b);

} // namespace scalify::rt::tcp

#endif // SCALIFY_RUNTIME_COMM_TCP_PROOF_H
