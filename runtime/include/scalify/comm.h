/* Communicators between ranks, the processes (or threads of one process) that
 * run a step together.
 *
 * Every rank of a launch opens the same number of communicators. One thread at
 * a time uses a communicator; a second thread gets SCALIFY_RT_BUSY. Conventions
 * are those of scalify/runtime.h: scalify_rt_last_error() has the text.
 *
 * A call that needs other ranks returns SCALIFY_RT_COMM when a rank dies (at
 * once), is late (after the timeout), aborts (at once, with its reason) or
 * sends an unexpected message. The text names the rank, the exchange and the
 * step. From then on every such call of the communicator fails.
 *
 * For tests and benchmarks SCALIFY_COMM_LINK emulates a slow, unsteady link on
 * every transport that moves data: "bandwidth=2e8,latency=1e-4,jitter=0.5,
 * straggler=20:8,seed=1", without blanks, gives bytes per second and seconds, a
 * random factor of 1 to 1.5, and every 20th collective 8 times as long. The
 * data are unaffected.
 */
#ifndef SCALIFY_COMM_H
#define SCALIFY_COMM_H

#include "scalify/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct scalify_rt_comm scalify_rt_comm;

/* Zero-initialise it. Zero means the default, taken from the launch. */
typedef struct scalify_rt_comm_options {
  /* "local": ranks of one machine, through shared memory. "tcp": ranks of any
   * machines, which meet at SCALIFY_RENDEZVOUS (HOST:PORT of rank 0, or
   * file:PATH), else at torchrun's MASTER_ADDR and MASTER_PORT, else on the
   * first of Slurm's nodes; they prove to one another that they know the secret
   * of SCALIFY_SECRET or SCALIFY_SECRET_FILE. "mpi". "record": any number of
   * ranks, of which only this one exists; see scalify_rt_comm_trace. Another
   * NAME: libscalify_comm_NAME.so. NULL: SCALIFY_TRANSPORT, else "tcp" if
   * SCALIFY_RENDEZVOUS is set, else "local" if the launch is on one machine,
   * else "mpi" for ranks that mpirun started and "tcp" for others. */
  const char *transport;
  /* If `size` is 0, both come from the environment. */
  int32_t rank, size;
  /* "local": the same on all ranks, different for each launch. NULL:
   * SCALIFY_JOB, else the job's name according to mpirun, torchrun or Slurm. */
  const char *job;
  /* How late a rank may be, and how long it may take to join. 0:
   * SCALIFY_COMM_TIMEOUT, else 300. */
  double timeout_seconds;
  /* As in scalify_rt_comm_set_poll; also called while the ranks join. */
  scalify_rt_poll poll;
  void *context;
} scalify_rt_comm_options;

/* Reads rank and size from the environment: SCALIFY_RANK and SCALIFY_SIZE, else
 * torchrun's RANK and WORLD_SIZE, else Open MPI's, MPICH's or Slurm's
 * variables; 0 of 1 if none is set. */
SCALIFY_RT_API scalify_rt_status scalify_rt_comm_launched(int32_t *rank,
                                                          int32_t *size);

/* Joins the other ranks and returns when all have joined. `options` may be
 * NULL. On failure `*out` is NULL. */
SCALIFY_RT_API scalify_rt_status scalify_rt_comm_open(
    const scalify_rt_comm_options *options, scalify_rt_comm **out);

/* Leaves. Ranks that still wait for this one are told that it has closed. */
SCALIFY_RT_API void scalify_rt_comm_free(scalify_rt_comm *comm);

SCALIFY_RT_API int32_t scalify_rt_comm_rank(const scalify_rt_comm *comm);
SCALIFY_RT_API int32_t scalify_rt_comm_size(const scalify_rt_comm *comm);
SCALIFY_RT_API const char *
scalify_rt_comm_transport(const scalify_rt_comm *comm);

/* Bytes that this rank has sent since it was opened, without headers. */
SCALIFY_RT_API uint64_t scalify_rt_comm_bytes_sent(const scalify_rt_comm *comm);

/* Returns when all ranks have called it. */
SCALIFY_RT_API scalify_rt_status scalify_rt_comm_barrier(scalify_rt_comm *comm);

/* Gathers `bytes` of each rank, in the order of ranks, to `out` on all ranks.
 */
SCALIFY_RT_API scalify_rt_status scalify_rt_comm_gather_bytes(
    scalify_rt_comm *comm, const void *data, uint64_t bytes, void *out);

/* Aborts this rank: calls of other ranks that need it fail with `text`. */
SCALIFY_RT_API scalify_rt_status scalify_rt_comm_abort(scalify_rt_comm *comm,
                                                       const char *text);

/* Sets a callback that is called at least every 0.1 s while a call waits for
 * other ranks, on the waiting thread, which may be a thread of an executable. A
 * nonzero return stops the call with SCALIFY_RT_INTERRUPTED. NULL removes it.
 */
SCALIFY_RT_API scalify_rt_status scalify_rt_comm_set_poll(scalify_rt_comm *comm,
                                                          scalify_rt_poll poll,
                                                          void *context);

/* Returns the record of transport "record": one line for each collective,
 * oldest first:
 *   step=0 all_reduce sum f32 elements=10 members=0,1,2,3 sent=64 'grads'
 * It moves nothing: data from other ranks are zeros, and reductions cover this
 * rank's own elements only. Other transports record nothing. */
SCALIFY_RT_API const char *scalify_rt_comm_trace(const scalify_rt_comm *comm);

#ifdef __cplusplus
}
#endif
#endif /* SCALIFY_COMM_H */
