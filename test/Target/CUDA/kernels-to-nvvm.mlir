// RUN: scalify-opt %s --scalify-kernels-to-nvvm | FileCheck %s

// A pointer a buffer, one for the counters, and what a block is known to be.
// So many blocks fit into a multiprocessor that threads have room for 128 registers.
// Roots and roundings are instructions: nothing is called.
// CHECK-LABEL: gpu.module @kernels
// CHECK-NOT: __nv_
// CHECK: llvm.func @k0(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr) attributes {{{.*}}gpu.kernel, {{.*}}nvvm.kernel, nvvm.maxntid = array<i32: 64, 1, 1>, nvvm.minctasm = 8 : i32}
// CHECK-DAG: nvvm.read.ptx.sreg.tid.x
// CHECK-DAG: llvm.intr.sqrt
// CHECK-DAG: llvm.intr.floor
// CHECK: nvvm.shfl.sync
// CHECK: nvvm.barrier
// CHECK: llvm.return
func.func @k0(%x: memref<64xf32>, %y: memref<64xf32>, %lo: index, %hi: index, %counters: memref<1xi64>) attributes {plan.threads = 64 : i64} {
  %t = gpu.thread_id x
  %a = memref.load %x[%t] : memref<64xf32>
  %r = math.sqrt %a : f32
  %f = math.floor %r : f32
  %s = gpu.all_reduce add %f uniform {} : (f32) -> (f32)
  memref.store %s, %y[%t] : memref<64xf32>
  return
}
