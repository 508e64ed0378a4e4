//===- Devices.cpp - The table of NVIDIA's GPUs ---------------------------===//

#include "CUDATarget.h"
#include "scalify/Target/CUDA/Passes.h"

#include <memory>
#include <vector>

using namespace scalify;

static constexpr llvm::StringLiteral kH100Names[] = {"cuda", "h100", "H100"};
static constexpr llvm::StringLiteral kH200Names[] = {"H200"};

// The rates are those that large products and copies reach; docs/planner.md
// names the measurements. Buckets are for NVLink by the planner's figures.
// Peaks are those of the SXM modules: PCIe cards are slower, and the driver
// names them otherwise.
static constexpr TargetInfo kDevices[] = {
    {/*name=*/"sm_90a",
     /*aliases=*/kH100Names,
     /*description=*/"NVIDIA Hopper, with the costs of an H100 SXM5",
     /*device=*/"cuda",
     /*isGPU=*/true,
     /*chip=*/"sm_90a",
     /*capability=*/90,
     /*formats=*/"sm_90a",
     /*callsTakeBatch=*/true,
     /*bucketBytes=*/25 << 20,
     /*launch=*/2000,
     /*call=*/4000,
     /*event=*/2000,
     /*bandwidth=*/3050,
     /*processors=*/132,
     /*tile=*/128,
     /*products=*/{/*bf16=*/true, /*f16=*/true, /*fp8=*/true},
     /*flops=*/{6e4, 7.67e5, 1.4e6},
     /*peaks=*/
     {/*device=*/"NVIDIA H100 80GB HBM3", /*bandwidth=*/3350, /*f32=*/66.9e3,
      /*tf32=*/494.7e3, /*bits16=*/989.4e3, /*bits8=*/1978.9e3}},
    // An H100 with faster memory. Copies are taken to reach the same share of
    // the data sheet's rate, 0.91; none was measured.
    {/*name=*/"h200",
     /*aliases=*/kH200Names,
     /*description=*/"NVIDIA Hopper, with the costs of an H200 SXM",
     /*device=*/"cuda",
     /*isGPU=*/true,
     /*chip=*/"sm_90a",
     /*capability=*/90,
     /*formats=*/"h200",
     /*callsTakeBatch=*/true,
     /*bucketBytes=*/25 << 20,
     /*launch=*/2000,
     /*call=*/4000,
     /*event=*/2000,
     /*bandwidth=*/4370,
     /*processors=*/132,
     /*tile=*/128,
     /*products=*/{/*bf16=*/true, /*f16=*/true, /*fp8=*/true},
     /*flops=*/{6e4, 7.67e5, 1.4e6},
     /*peaks=*/
     {/*device=*/"NVIDIA H200", /*bandwidth=*/4800, /*f32=*/66.9e3,
      /*tf32=*/494.7e3, /*bits16=*/989.4e3, /*bits8=*/1978.9e3}},
};

void scalify::registerCUDATargets() {
  static std::vector<std::unique_ptr<CUDATarget>> targets;
  for (const TargetInfo &info : kDevices)
    registerTarget(*targets.emplace_back(std::make_unique<CUDATarget>(info)));
}
