// The choice of a rank's GPU, on a recording of the driver.
#include "LaunchEnvironment.h"
#include "NcclRanks.h"
#include "device/cuda/ChooseGpu.h"
#include "device/cuda/CudaDevice.h"
#include "support/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace scalify::rt;
using namespace scalify::rt::test;
using scalify::test::Environment;

namespace {
/// Returns the GPU's index, or the error.
std::string choose(const Environment::Values &values, int gpus,
                   int32_t asked = 0) {
  Environment environment(values);
  cuda::RecordingDriver driver;
  driver.gpus = gpus;
  int32_t found = -1;
  std::string text = errorOf([&] { found = cuda::chooseGpu(driver, asked); });
  return text.empty() ? std::to_string(found) : text;
}

TEST(CudaChoose, ARankHasTheGpuOfItsPlaceOnTheMachine) {
  EXPECT_EQ(choose({}, 8), "0");
  EXPECT_EQ(choose({}, 0), "0"); // opening the device reports the error
  const Environment::Values torch = {
      {"RANK", "13"}, {"WORLD_SIZE", "16"}, {"LOCAL_RANK", "5"}};
  EXPECT_EQ(choose(torch, 8), "5");
  EXPECT_EQ(choose(torch, 8, 2), "2");
}

TEST(CudaChoose, TheLaunchMayShowEachRankItsOwn) {
  EXPECT_EQ(choose({{"SLURM_PROCID", "3"},
                    {"SLURM_NTASKS", "4"},
                    {"SLURM_LOCALID", "3"},
                    {"CUDA_VISIBLE_DEVICES", "3"}},
                   1),
            "0");
  EXPECT_EQ(choose({{"SCALIFY_GPU", "1"},
                    {"RANK", "3"},
                    {"WORLD_SIZE", "4"},
                    {"LOCAL_RANK", "3"}},
                   2),
            "1");
  EXPECT_EQ(choose({{"SCALIFY_GPU", "x"}}, 2),
            "the environment's SCALIFY_GPU is 'x', not the number of a GPU");
}

TEST(CudaChoose, FewerGpusThanRanksIsAnError) {
  EXPECT_EQ(choose({{"OMPI_COMM_WORLD_RANK", "6"},
                    {"OMPI_COMM_WORLD_SIZE", "8"},
                    {"OMPI_COMM_WORLD_LOCAL_RANK", "2"}},
                   2),
            "there is no GPU for this rank, number 2 on its machine by "
            "OMPI_COMM_WORLD_LOCAL_RANK: the driver shows 2; start at most one "
            "rank per GPU, or name each rank's GPU by SCALIFY_GPU");
  EXPECT_THAT(choose({{"SCALIFY_RANK", "5"}, {"SCALIFY_SIZE", "8"}}, 4),
              testing::HasSubstr("number 5 on its machine by SCALIFY_RANK: the "
                                 "driver shows 4; start at most one rank per "
                                 "GPU, or name each rank's GPU by SCALIFY_GPU, "
                                 "or, on several machines, set each rank's "
                                 "number on its machine by "
                                 "SCALIFY_LOCAL_RANK"));
}

TEST(CudaChoose, TheDeviceSaysWhichItIs) {
  auto driver = std::make_shared<cuda::RecordingDriver>();
  driver->gpus = 4;
  Program program;
  program.capability = driver->capability;
  EXPECT_EQ(cuda::makeCudaDevice(driver, 3, program)->deviceIndex(), 3);
}

TEST(CudaChoose, TheGpuHasTheCapabilityOfTheProgram) {
  auto driver = std::make_shared<cuda::RecordingDriver>();
  driver->capability = 80;
  Program program;
  program.target = "sm_90a";
  program.capability = 90;
  try {
    cuda::makeCudaDevice(driver, 0, program);
    FAIL() << "a device of another capability was made";
  } catch (const scalify::rt::Error &error) {
    EXPECT_STREQ(error.what(),
                 "artefact is for target 'sm_90a', a GPU of compute capability "
                 "90; 'recording' has 80");
  }
}
} // namespace
