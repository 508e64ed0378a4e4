// RUN: scalify-opt %s --scalify-kernels-to-nvvm --scalify-emit-ptx | FileCheck %s

// CHECK: gpu.binary @kernels [#gpu.object<#nvvm.target<{{.*}}chip = "sm_90a"{{.*}}>, assembly = "{{.*}}.target sm_90a{{.*}}.visible .entry k0({{.*}}ld.global.v4.b32{{.*}}st.global.v4.b32
func.func @k0(%x: memref<1024xf32>, %y: memref<1024xf32>, %lo: index, %hi: index, %counters: memref<1xi64>) attributes {plan.threads = 256 : i64} {
  %c4 = arith.constant 4 : index
  %t = gpu.thread_id x
  %i = arith.muli %t, %c4 : index
  %a = vector.load %x[%i] {alignment = 16 : i64} : memref<1024xf32>, vector<4xf32>
  %b = arith.addf %a, %a : vector<4xf32>
  vector.store %b, %y[%i] {alignment = 16 : i64} : memref<1024xf32>, vector<4xf32>
  return
}
