/* The interface of transports between the runtime's ranks.
 *
 * A transport moves messages between the ranks of one job without interpreting
 * them. The runtime builds collectives, their reductions and their checks on
 * it. `local` is built in. Other transports are shared objects,
 * libscalify_comm_NAME.so, that export scalify_transport_open, so that the
 * runtime itself needs no MPI.
 *
 * One thread at a time calls a transport. Messages of an ordered pair of ranks
 * arrive in the order in which they were sent.
 */
#ifndef SCALIFY_TRANSPORT_H
#define SCALIFY_TRANSPORT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SCALIFY_TRANSPORT_VERSION 1
/* Bytes of the header that precedes the data of each message. */
#define SCALIFY_TRANSPORT_HEADER 128

typedef enum scalify_transport_status {
  SCALIFY_TRANSPORT_OK = 0,
  SCALIFY_TRANSPORT_DIED = 1,        /* `peer` died or has closed */
  SCALIFY_TRANSPORT_STOPPED = 2,     /* `peer` called abort */
  SCALIFY_TRANSPORT_LATE = 3,        /* nothing moved in time; `peer` blocks */
  SCALIFY_TRANSPORT_SIZE = 4,        /* `peer` sent another number of bytes; its
                                        header was received */
  SCALIFY_TRANSPORT_INTERRUPTED = 5, /* the poll callback asked to stop */
  SCALIFY_TRANSPORT_FAILED = 6       /* anything else */
} scalify_transport_status;

/* Describes a fault, for people: "rank 3 died (process 4711)". */
typedef struct scalify_transport_fault {
  int32_t peer; /* or -1 */
  char text[2048];
} scalify_transport_fault;

/* A message to send or receive. `header` has SCALIFY_TRANSPORT_HEADER bytes.
 * `data` may be NULL if `bytes` is 0. A send does not modify its memory. */
typedef struct scalify_transport_message {
  int32_t peer; /* never this rank */
  void *header;
  void *data;
  uint64_t bytes;
} scalify_transport_message;

/* The timeout, and a callback that is called at least every 0.1 s while
 * waiting: a nonzero return stops the call. `poll` may be NULL. */
typedef struct scalify_transport_wait {
  double seconds;
  int (*poll)(void *context);
  void *context;
} scalify_transport_wait;

typedef struct scalify_transport {
  void *self;
  int32_t rank, size;

  /* Moves all messages, at most one to and one from each peer, and returns when
   * the sent memory may be changed and all receives are complete. The messages
   * progress together: none waits for another. A dead peer is noticed at once
   * (within 0.1 s). A peer is late if nothing moves from or to it for
   * `wait->seconds`. After a fault only abort and close may follow. */
  scalify_transport_status (*exchange)(
      void *self, const scalify_transport_message *sends, int32_t num_sends,
      const scalify_transport_message *receives, int32_t num_receives,
      const scalify_transport_wait *wait, scalify_transport_fault *fault);

  /* Tells all peers that this rank aborts, and why: their exchanges return
   * SCALIFY_TRANSPORT_STOPPED with `reason`. */
  void (*abort)(void *self, const char *reason);

  /* Leaves the job and frees the transport. Messages already sent still arrive.
   */
  void (*close)(void *self);
} scalify_transport;

typedef struct scalify_transport_options {
  int32_t version; /* SCALIFY_TRANSPORT_VERSION */
  int32_t rank, size;
  const char *job; /* the same on all ranks, different for each launch */
  scalify_transport_wait wait; /* for all ranks to join */
} scalify_transport_options;

/* The function that a shared object exports. Returns when all ranks have
 * joined. */
typedef scalify_transport_status (*scalify_transport_open_function)(
    const scalify_transport_options *options, scalify_transport *out,
    scalify_transport_fault *fault);
#define SCALIFY_TRANSPORT_OPEN "scalify_transport_open"

#ifdef __cplusplus
}
#endif
#endif /* SCALIFY_TRANSPORT_H */
