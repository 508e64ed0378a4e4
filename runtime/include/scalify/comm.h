/* Ranks: the processes (or threads of one process) that run a step together.
 *
 * A communicator is how one rank reaches the others. All ranks of a launch open
 * one, and all open as many; each is used by one thread at a time, and a second
 * one gets SCALIFY_RT_BUSY. Conventions
 * are those of scalify/runtime.h: scalify_rt_last_error() has the text.
 *
 * A call that needs others returns SCALIFY_RT_COMM when a rank dies (at once),
 * is late (after the timeout), gives up (at once, with its reason) or sends
 * what it should not. The text names the rank, what was being exchanged and the
 * step. From then on every such call of the communicator fails.
 *
 * For tests and benchmarks SCALIFY_COMM_LINK makes a link slow and unsteady, on
 * all transports that move anything: "bandwidth=2e8,latency=1e-4,jitter=0.5,
 * straggler=20:8,seed=1", without blanks, is bytes and seconds, 1 to 1.5 times
 * as long at random, and every 20th collective 8 times as long. Data are the
 * same.
 */
#ifndef SCALIFY_COMM_H
#define SCALIFY_COMM_H

#include "scalify/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct scalify_rt_comm scalify_rt_comm;

/* Zero-initialise it; zero means what the launch says everywhere. */
typedef struct scalify_rt_comm_options {
  /* "local": ranks of one machine, through shared memory. "tcp": ranks of any
   * machines, which meet where SCALIFY_RENDEZVOUS says (HOST:PORT of rank 0, or
   * file:PATH), else torchrun's MASTER_ADDR and MASTER_PORT, else on the first
   * of Slurm's nodes. "mpi". "record": any number of ranks, of which only this
   * one is there; see scalify_rt_comm_trace. Another NAME:
   * libscalify_comm_NAME.so. NULL: SCALIFY_TRANSPORT, else "tcp" where
   * SCALIFY_RENDEZVOUS is set, else "local" where the launch is on one machine,
   * and where it is not "mpi" for those that mpirun starts and "tcp" for
   * others. */
  const char *transport;
  /* Both as the environment says where `size` is 0. */
  int32_t rank, size;
  /* "local": the same on all ranks, another for each launch. NULL: SCALIFY_JOB,
   * else what mpirun, torchrun or Slurm call the job. */
  const char *job;
  /* How long a rank may be late, and may take to join. 0: SCALIFY_COMM_TIMEOUT,
   * else 300. */
  double timeout_seconds;
  /* As scalify_rt_comm_set_poll; it is called while the ranks join, too. */
  scalify_rt_poll poll;
  void *context;
} scalify_rt_comm_options;

/* The rank and size that the environment says: SCALIFY_RANK and SCALIFY_SIZE,
 * torchrun's RANK and WORLD_SIZE, Open MPI's, MPICH's or Slurm's; 0 of 1 where
 * it has none. */
SCALIFY_RT_API scalify_rt_status scalify_rt_comm_launched(int32_t *rank,
                                                          int32_t *size);

/* Joins the others; returns when all have joined. `options` may be NULL. On
 * failure `*out` is NULL. */
SCALIFY_RT_API scalify_rt_status scalify_rt_comm_open(
    const scalify_rt_comm_options *options, scalify_rt_comm **out);

/* Leaves. Others that still wait for this rank are told that it has closed. */
SCALIFY_RT_API void scalify_rt_comm_free(scalify_rt_comm *comm);

SCALIFY_RT_API int32_t scalify_rt_comm_rank(const scalify_rt_comm *comm);
SCALIFY_RT_API int32_t scalify_rt_comm_size(const scalify_rt_comm *comm);
SCALIFY_RT_API const char *
scalify_rt_comm_transport(const scalify_rt_comm *comm);

/* Bytes that this rank has sent since it was opened, without headers. */
SCALIFY_RT_API uint64_t scalify_rt_comm_bytes_sent(const scalify_rt_comm *comm);

/* Returns when all ranks have called it. */
SCALIFY_RT_API scalify_rt_status scalify_rt_comm_barrier(scalify_rt_comm *comm);

/* `bytes` of each rank, in the order of ranks, to `out` on all of them. */
SCALIFY_RT_API scalify_rt_status scalify_rt_comm_gather_bytes(
    scalify_rt_comm *comm, const void *data, uint64_t bytes, void *out);

/* This rank gives up: calls of others that need it fail with that text. */
SCALIFY_RT_API scalify_rt_status scalify_rt_comm_abort(scalify_rt_comm *comm,
                                                       const char *text);

/* Called at least every 0.1 s while a call waits for others, on the thread that
 * waits, which may be one of an executable; a nonzero return stops it with
 * SCALIFY_RT_INTERRUPTED. NULL removes it. */
SCALIFY_RT_API scalify_rt_status scalify_rt_comm_set_poll(scalify_rt_comm *comm,
                                                          scalify_rt_poll poll,
                                                          void *context);

/* Of transport "record", one line for each collective, oldest first:
 *   step=0 all_reduce sum f32 elements=10 members=0,1,2,3 sent=64 'grads'
 * It moves nothing: what would come from other ranks is zeros, and joins are of
 * this rank's own elements alone. Other transports record nothing. */
SCALIFY_RT_API const char *scalify_rt_comm_trace(const scalify_rt_comm *comm);

#ifdef __cplusplus
}
#endif
#endif /* SCALIFY_COMM_H */
