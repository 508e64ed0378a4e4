// The environment variables by which ranks are started.
#ifndef SCALIFY_UNITTESTS_RUNTIME_LAUNCHENVIRONMENT_H
#define SCALIFY_UNITTESTS_RUNTIME_LAUNCHENVIRONMENT_H

#include <cstdlib>
#include <map>
#include <string>

namespace scalify::test {

/// A launcher's environment variables, set while it lives.
class Environment {
public:
  using Values = std::map<std::string, std::string>;
  explicit Environment(const Values &values) {
    for (const char *name : names) {
      const char *value = std::getenv(name);
      if (value)
        before[name] = value;
      ::unsetenv(name);
    }
    for (const auto &[name, value] : values)
      ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const char *name : names)
      ::unsetenv(name);
    for (const auto &[name, value] : before)
      ::setenv(name.c_str(), value.c_str(), 1);
  }
  Environment(const Environment &) = delete;
  Environment &operator=(const Environment &) = delete;

private:
  static constexpr const char *names[] = {"SCALIFY_RANK",
                                          "SCALIFY_SIZE",
                                          "SCALIFY_JOB",
                                          "SCALIFY_TRANSPORT",
                                          "SCALIFY_COMM_TIMEOUT",
                                          "RANK",
                                          "WORLD_SIZE",
                                          "LOCAL_WORLD_SIZE",
                                          "MASTER_ADDR",
                                          "MASTER_PORT",
                                          "TORCHELASTIC_RUN_ID",
                                          "TORCHELASTIC_RESTART_COUNT",
                                          "OMPI_COMM_WORLD_RANK",
                                          "OMPI_COMM_WORLD_SIZE",
                                          "PMIX_NAMESPACE",
                                          "OMPI_COMM_WORLD_LOCAL_SIZE",
                                          "PMI_RANK",
                                          "OMPI_MCA_ess_base_jobid",
                                          "PMI_SIZE",
                                          "SLURM_PROCID",
                                          "SLURM_NTASKS",
                                          "SLURM_NNODES",
                                          "SLURM_JOB_ID",
                                          "SLURM_STEP_ID",
                                          "SCALIFY_LOCAL_RANK",
                                          "SCALIFY_RENDEZVOUS",
                                          "SCALIFY_SECRET",
                                          "SCALIFY_SECRET_FILE",
                                          "SCALIFY_INTERFACE",
                                          "SCALIFY_GPU",
                                          "LOCAL_RANK",
                                          "TORCHELASTIC_USE_AGENT_STORE",
                                          "OMPI_COMM_WORLD_LOCAL_RANK",
                                          "MPI_LOCALRANKID",
                                          "SLURM_LOCALID",
                                          "SLURM_JOB_NODELIST",
                                          "SLURM_STEP_NODELIST",
                                          "CUDA_VISIBLE_DEVICES"};
  std::map<std::string, std::string> before;
};

} // namespace scalify::test

#endif // SCALIFY_UNITTESTS_RUNTIME_LAUNCHENVIRONMENT_H
