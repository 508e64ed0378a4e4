/* Scalify's runtime: loads a compiled training step and runs it.
 *
 * The runtime is plain C++17 behind this C interface. It links no compiler: an
 * artefact (`.scalify`) carries its kernels as machine code and a manifest that
 * lists the commands of each function. See docs/runtime.md for the file format.
 *
 * Conventions
 *  - Every function that can fail returns a scalify_rt_status. The text of the
 *    last failure on the calling thread is scalify_rt_last_error().
 *  - Handles are opaque. A handle belongs to one executable; two executables
 *    may run at the same time, one executable runs one function at a time (a
 *    second caller gets SCALIFY_RT_BUSY).
 *  - Strings and tables that a function hands out live as long as the handle.
 *  - Tensors are dense, row major, little endian; i1 is one byte per element.
 *  - Argument and result memory belongs to the caller. 64-byte alignment is
 *    best for speed; the alignment of the element type is required.
 */
#ifndef SCALIFY_RUNTIME_H
#define SCALIFY_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define SCALIFY_RT_API
#else
#define SCALIFY_RT_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Status codes. The numbers are stable. */
typedef enum scalify_rt_status {
  SCALIFY_RT_OK = 0,
  SCALIFY_RT_IO = 1,           /* a file cannot be opened or read */
  SCALIFY_RT_BAD_ARTEFACT = 2, /* truncated, damaged, or malformed artefact */
  SCALIFY_RT_UNSUPPORTED = 3,  /* a version, CPU or command this build lacks */
  SCALIFY_RT_BAD_ARGUMENT = 4, /* the caller passed an invalid value */
  SCALIFY_RT_BUSY = 5,         /* the executable is running on another thread */
  SCALIFY_RT_INTERRUPTED = 6,  /* the poll callback asked to stop */
  SCALIFY_RT_INTERNAL = 7,     /* out of memory, or a fault in the runtime */
  SCALIFY_RT_COMM = 8,         /* a rank died, is late, or sent an unexpected
                                  message: the text says which */
  SCALIFY_RT_HOST = 9          /* a host callback failed; donated memory is
                                  half written */
} scalify_rt_status;

typedef struct scalify_rt_executable scalify_rt_executable;

/* The device that runs the commands. The CPU runs artefacts of target "cpu",
 * CUDA (an NVIDIA GPU; its driver and cuBLASLt are opened when requested) those
 * of a GPU. The null device takes both, computes nothing and records
 * its commands, for tests of plans. */
typedef enum scalify_rt_device {
  SCALIFY_RT_DEVICE_CPU = 0,
  SCALIFY_RT_DEVICE_NULL = 1,
  SCALIFY_RT_DEVICE_CUDA = 2
} scalify_rt_device;

struct scalify_rt_comm; /* scalify/comm.h */

/* Load options. Zero-initialise them; zero means the default everywhere. */
typedef struct scalify_rt_options {
  int32_t threads; /* 0: one per core this process may use */
  scalify_rt_device device;
  int32_t device_index; /* the GPU among those that CUDA_VISIBLE_DEVICES shows;
                           0: SCALIFY_GPU, else the rank's number on its
                           machine according to the launch, else the first */
  /* An artefact for several ranks needs a communicator of as many ranks, which
   * outlives the executable and is not used while a function runs; other
   * artefacts ignore it. All ranks load at the same time, and several artefacts
   * in the same order, since they compare what they loaded. If a rank fails to
   * load, the others are told, and the communicator only fails from then on. */
  struct scalify_rt_comm *comm;
} scalify_rt_options;

/* One argument or result, as the manifest describes it. */
typedef struct scalify_rt_tensor {
  const char *name;     /* "params['w']", "result[0]['w']" */
  const char *dtype;    /* "f32", "bf16", "f8E4M3FN", "i32", "i1", ... */
  const int64_t *shape; /* rank extents */
  int32_t rank;
  uint64_t bytes;
  int32_t alias;    /* arguments: the result that takes over this memory;
                       results: the argument whose memory it takes; or -1 */
  const char *role; /* "param", "moment", ..., "" for results */
} scalify_rt_tensor;

#define SCALIFY_RT_COUNTER_WORDS 6

/* A quantizing cast that counts the values it saturates and flushes. */
typedef struct scalify_rt_counter {
  const char *cast; /* the cast's name in the recipe's report */
  const char *op;
  const char *loc;
  const char *format; /* "f8E4M3FN", "f8E5M2" */
  uint64_t elements;  /* values cast in one step */
  uint64_t saturated; /* of the last run: values clipped to the largest */
  uint64_t flushed;   /* of the last run: nonzero values that became zero */
  uint64_t zeros;     /* of the last run: values that were zero */
  uint64_t nans;      /* of the last run: values not finite */
  uint64_t top;       /* of the last run: values of at least a sixteenth of the
                         format's largest, NaN too: a scale 4 binades lower
                         would clip them */
  /* The scale of the last run, to 8 mantissa bits; for several scales, in a
   * loop, about their geometric mean. 0 if unknown: a scale for each block or
   * row, or no run. */
  float scale;
  float moved; /* log2 of the scale over the previous run's; 0 if either is 0 */
} scalify_rt_counter;

/* Time spent in one command since profiling was enabled. */
typedef struct scalify_rt_profile_entry {
  const char *function;
  const char *op; /* "kernel", "gemm", "attention", "copy", "fill" */
  const char *name;
  const char *loc;
  uint64_t calls;
  uint64_t nanoseconds; /* wall time, all calls together */
  uint64_t bytes;       /* memory traffic of one call, by the compiler */
  uint64_t flops;       /* of one call; gemm and attention only */
  const char *type;     /* type of the products, "f8E4M3FN", "bf16", "tf32",
                           ...; "" for other commands */
  double least;         /* nanoseconds of one call at the peaks of the target's
                           data sheet; 0 if it has none or is another device */
} scalify_rt_profile_entry;

/* The runtime's version, "0.1.0". */
SCALIFY_RT_API const char *scalify_rt_version(void);

/* The newest manifest version this runtime reads. */
SCALIFY_RT_API int32_t scalify_rt_manifest_version(void);

/* Text of the calling thread's last failure; "" if there was none. */
SCALIFY_RT_API const char *scalify_rt_last_error(void);

/* Loads an artefact from a file, or from `size` bytes at `data` (copied: the
 * caller may free them). Checks magic, lengths, checksum, version, that this
 * CPU has the features the kernels were compiled for, and every index and
 * extent in the manifest, so that a loaded executable cannot address memory
 * outside its buffers. `options` may be NULL. On failure `*out` is NULL. */
SCALIFY_RT_API scalify_rt_status
scalify_rt_load_file(const char *path, const scalify_rt_options *options,
                     scalify_rt_executable **out);
SCALIFY_RT_API scalify_rt_status scalify_rt_load_memory(
    const void *data, size_t size, const scalify_rt_options *options,
    scalify_rt_executable **out);

/* Frees an executable that is not running. NULL is allowed. */
SCALIFY_RT_API void scalify_rt_free(scalify_rt_executable *executable);

/* Returns the driver's name of the GPU, "NVIDIA H100 80GB HBM3"; "" on a CPU.
 */
SCALIFY_RT_API const char *
scalify_rt_device_name(const scalify_rt_executable *executable);

/* Returns the GPU's index among those that CUDA_VISIBLE_DEVICES shows; -1 on a
 * CPU.
 */
SCALIFY_RT_API int32_t
scalify_rt_device_index(const scalify_rt_executable *executable);

/* The manifest's JSON text (UTF-8, zero terminated). */
SCALIFY_RT_API const char *
scalify_rt_manifest(const scalify_rt_executable *executable);

SCALIFY_RT_API int32_t
scalify_rt_num_args(const scalify_rt_executable *executable);
SCALIFY_RT_API int32_t
scalify_rt_num_results(const scalify_rt_executable *executable);
SCALIFY_RT_API scalify_rt_status
scalify_rt_arg(const scalify_rt_executable *executable, int32_t index,
               scalify_rt_tensor *out);
SCALIFY_RT_API scalify_rt_status
scalify_rt_result(const scalify_rt_executable *executable, int32_t index,
                  scalify_rt_tensor *out);

/* The functions of the artefact: "step", "rescale" if the casts' scales are an
 * argument of the step, and "measure" if amaxes of the step's arguments are.
 * The calls above describe the step; these describe any function. Counts are -1
 * if the function does not exist.
 * "measure" takes the step's arguments of the same names, and returns the
 * step's argument "scalify.argument_amax". Run it before the first step, and
 * whenever one of these arguments is not, unmodified, the result that the last
 * step wrote in its memory; otherwise that step wrote the amaxes too. */
SCALIFY_RT_API int32_t
scalify_rt_num_functions(const scalify_rt_executable *executable);
SCALIFY_RT_API const char *
scalify_rt_function_name(const scalify_rt_executable *executable,
                         int32_t index);
SCALIFY_RT_API int32_t scalify_rt_function_num_args(
    const scalify_rt_executable *executable, const char *function);
SCALIFY_RT_API int32_t scalify_rt_function_num_results(
    const scalify_rt_executable *executable, const char *function);
SCALIFY_RT_API scalify_rt_status scalify_rt_function_arg(
    const scalify_rt_executable *executable, const char *function,
    int32_t index, scalify_rt_tensor *out);
SCALIFY_RT_API scalify_rt_status scalify_rt_function_result(
    const scalify_rt_executable *executable, const char *function,
    int32_t index, scalify_rt_tensor *out);

/* Writes the initial value of a step's argument, `bytes` of its tensor, to
 * `data`. State that the compiler adds has an initial value: arguments whose
 * names start with "scalify.", such as the casts' scales. The user's arguments
 * have none. */
SCALIFY_RT_API scalify_rt_status scalify_rt_initial(
    const scalify_rt_executable *executable, int32_t index, void *data);

/* Runs one function of the artefact, usually "step", and returns when it is
 * done. `args` and `results` hold one pointer per argument and result. A result
 * that aliases an argument is written to that argument's memory: its entry in
 * `results` is NULL or that argument's pointer. The runtime allocates nothing
 * here. After SCALIFY_RT_INTERRUPTED the memory of results and of donated
 * arguments holds unspecified values. */
SCALIFY_RT_API scalify_rt_status scalify_rt_run(
    scalify_rt_executable *executable, const char *function, void *const *args,
    int32_t num_args, void *const *results, int32_t num_results);

/* Runs as much of the function "step" as it takes to count the casts' values
 * and to move their scales, for a caller that then runs the step on the same
 * arguments. It does not write to an argument that scalify_rt_is_spared names,
 * such as a parameter that only an optimizer's update overwrites. Of other
 * donated arguments pass copies. All results have unspecified values but
 * "scalify.carried_scales". */
SCALIFY_RT_API scalify_rt_status
scalify_rt_try(scalify_rt_executable *executable, void *const *args,
               int32_t num_args, void *const *results, int32_t num_results);
SCALIFY_RT_API int32_t
scalify_rt_is_spared(const scalify_rt_executable *executable, int32_t index);

/* Manages memory from which a step uses arguments and results without copies:
 * the device's on a GPU, else the host's, so that callers need not distinguish.
 * State in this memory stays there from step to step. scalify_rt_run takes any
 * mix of pointers to it, to the host's memory, and to GPU memory of other
 * libraries; on a GPU the latter, and pointers inside an allocation, must be
 * multiples of 64. Arguments in the host's memory are copied to the GPU before
 * a step, and donated arguments and results back after it. The step runs on
 * scalify_rt_stream: work of other streams that writes its arguments must be
 * finished before the call, or scalify_rt_stream must wait for it.
 * The memory belongs to the executable: scalify_rt_memory_free or
 * scalify_rt_free releases it. The copies are done when the calls return;
 * `memory` may point inside an allocation. scalify_rt_memory_copy reads from
 * any memory that a step takes. */
SCALIFY_RT_API scalify_rt_status scalify_rt_memory_alloc(
    scalify_rt_executable *executable, uint64_t bytes, void **out);
SCALIFY_RT_API scalify_rt_status
scalify_rt_memory_free(scalify_rt_executable *executable, void *memory);
SCALIFY_RT_API scalify_rt_status
scalify_rt_memory_copy_in(scalify_rt_executable *executable, void *memory,
                          const void *data, uint64_t bytes);
SCALIFY_RT_API scalify_rt_status
scalify_rt_memory_copy_out(scalify_rt_executable *executable, void *data,
                           const void *memory, uint64_t bytes);
SCALIFY_RT_API scalify_rt_status
scalify_rt_memory_copy(scalify_rt_executable *executable, void *memory,
                       const void *source, uint64_t bytes);

/* Returns the CUstream of steps and copies on a GPU; NULL on a CPU. A step has
 * left it when scalify_rt_run returns. For a GPU's artefact the null device has
 * one too, although its memory is the host's. */
SCALIFY_RT_API void *scalify_rt_stream(const scalify_rt_executable *executable);

/* Waits until the GPU has finished all work of the process, on any stream. Call
 * it before a step writes to memory that another library used: that library may
 * release it while work on a stream of its own still reads it. */
SCALIFY_RT_API scalify_rt_status
scalify_rt_synchronize(scalify_rt_executable *executable);

/* Number of threads that compute in a run, including the caller's. The bits of
 * results do not depend on it. */
SCALIFY_RT_API int32_t
scalify_rt_threads(const scalify_rt_executable *executable);
SCALIFY_RT_API scalify_rt_status
scalify_rt_set_threads(scalify_rt_executable *executable, int32_t threads);

/* Called on the running thread between commands, at most once in 50 ms. A
 * nonzero return stops the run with SCALIFY_RT_INTERRUPTED. NULL removes it. */
typedef int (*scalify_rt_poll)(void *context);
SCALIFY_RT_API scalify_rt_status scalify_rt_set_poll(
    scalify_rt_executable *executable, scalify_rt_poll poll, void *context);

/* Called on the running thread for a command "host_call". `index` is the
 * command's number among all host calls of the artefact, functions in the order
 * of their names. `buffers` are the buffers that it reads, then those that it
 * writes, as the manifest lists them. A nonzero return stops the run with
 * SCALIFY_RT_HOST. Without a callback a function with such a command does not
 * run. */
typedef int (*scalify_rt_host_call)(void *context, int32_t index,
                                    void *const *buffers);
SCALIFY_RT_API scalify_rt_status
scalify_rt_set_host_call(scalify_rt_executable *executable,
                         scalify_rt_host_call call, void *context);

/* Health of the quantizing casts: counts of the last finished run of a function
 * with casts. */
SCALIFY_RT_API int32_t
scalify_rt_num_counters(const scalify_rt_executable *executable);
SCALIFY_RT_API scalify_rt_status
scalify_rt_counter_info(const scalify_rt_executable *executable, int32_t index,
                        scalify_rt_counter *out);

/* Returns the same counts as SCALIFY_RT_COUNTER_WORDS words (saturated,
 * flushed, zeros, nans, top, scales) per counter, valid as long as the
 * executable. The function "rescale" takes them. */
SCALIFY_RT_API const uint64_t *
scalify_rt_counters(const scalify_rt_executable *executable);
/* Replaces the counts until the next run, for example by those of a checkpoint.
 */
SCALIFY_RT_API scalify_rt_status scalify_rt_set_counters(
    scalify_rt_executable *executable, const uint64_t *words);

/* Enables per-command timing (clearing earlier times) or disables it. */
SCALIFY_RT_API scalify_rt_status
scalify_rt_set_profiling(scalify_rt_executable *executable, int32_t on);
SCALIFY_RT_API int32_t
scalify_rt_num_profile_entries(const scalify_rt_executable *executable);
SCALIFY_RT_API scalify_rt_status
scalify_rt_profile(const scalify_rt_executable *executable, int32_t index,
                   scalify_rt_profile_entry *out);

/* Returns the null device's record since the load, oldest first: one line of
 * text per command that ran or, for a GPU's artefact, one per call of CUDA's
 * driver and cuBLASLt, with addresses such as "arena+256", "const+0", "arg3+0",
 * "result1+0", "counters+32". Other devices record nothing. */
SCALIFY_RT_API const char *
scalify_rt_trace(const scalify_rt_executable *executable);

#ifdef __cplusplus
}
#endif
#endif /* SCALIFY_RUNTIME_H */
