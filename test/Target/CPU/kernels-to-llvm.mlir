// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-expand-math,canonicalize,cse),scalify-kernels-to-llvm)' | FileCheck %s
// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-expand-math))' | FileCheck %s --check-prefix=MATH

// CHECK-LABEL: llvm.func @k0(%{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr)
// CHECK: llvm.call @k0_body
// CHECK-LABEL: llvm.func internal @k0_body(%{{.*}}: !llvm.ptr {llvm.align = 1 : i64, llvm.noalias}, %{{.*}}: !llvm.ptr {llvm.align = 1 : i64, llvm.noalias}, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr {llvm.noalias})
// CHECK-NOT: llvm.call @
// MATH-LABEL: func.func @k0
// MATH-NOT: math.{{(exp|sin|powf|rsqrt)}}
// MATH: return
func.func @k0(%x: memref<64xf32>, %y: memref<64xf32>, %lo: index, %hi: index, %c: memref<1xi64>) attributes {plan.reads = 1 : i64, plan.writes = 1 : i64} {
  %step = arith.constant 16 : index
  scf.for %i = %lo to %hi step %step {
    %v = vector.load %x[%i] : memref<64xf32>, vector<16xf32>
    %e = math.exp %v : vector<16xf32>
    %s = math.sin %e : vector<16xf32>
    %p = math.powf %s, %v : vector<16xf32>
    %r = math.rsqrt %p : vector<16xf32>
    vector.store %r, %y[%i] : memref<64xf32>, vector<16xf32>
  }
  return
}

// CHECK-LABEL: llvm.func @k1(
// Memory that an output shares with an input is not promised apart.
// CHECK-LABEL: llvm.func internal @k1_body(%{{.*}}: !llvm.ptr {llvm.align = 1 : i64}, %{{.*}}: !llvm.ptr {llvm.align = 1 : i64}, %{{.*}}: i64
func.func @k1(%x: memref<64xf32>, %y: memref<64xf32>, %lo: index, %hi: index, %c: memref<1xi64>) attributes {plan.inplace = array<i64: 0, 0>, plan.reads = 1 : i64, plan.writes = 1 : i64} {
  %v = memref.load %x[%lo] : memref<64xf32>
  memref.store %v, %y[%lo] : memref<64xf32>
  return
}

// A comparison is of the widened float, and not of the narrow one.
// CHECK-LABEL: llvm.func internal @k3_body(
// CHECK: %[[W:.*]] = llvm.fpext %{{.*}} : f16 to f32
// CHECK: %[[G:.*]] = llvm.call_intrinsic "llvm.arithmetic.fence"(%[[W]])
// CHECK: llvm.fcmp "ogt" %[[G]],
func.func @k3(%x: memref<64xf16>, %y: memref<64xi1>, %lo: index, %hi: index, %c: memref<1xi64>) attributes {plan.reads = 1 : i64, plan.writes = 1 : i64} {
  %zero = arith.constant 0.0 : f32
  %v = memref.load %x[%lo] : memref<64xf16>
  %w = arith.extf %v : f16 to f32
  %is = arith.cmpf ogt, %w, %zero : f32
  memref.store %is, %y[%lo] : memref<64xi1>
  return
}

// Roundings stay apart.
// CHECK-LABEL: llvm.func internal @k4_body(
// CHECK: %[[W:.*]] = llvm.fptrunc %{{.*}} : f64 to f32
// CHECK: %[[G:.*]] = llvm.call_intrinsic "llvm.arithmetic.fence"(%[[W]])
// CHECK: llvm.fptrunc %[[G]] : f32 to f16
func.func @k4(%x: memref<64xf64>, %y: memref<64xf16>, %lo: index, %hi: index, %c: memref<1xi64>) attributes {plan.reads = 1 : i64, plan.writes = 1 : i64} {
  %v = memref.load %x[%lo] : memref<64xf64>
  %w = arith.truncf %v : f64 to f32
  %n = arith.truncf %w : f32 to f16
  memref.store %n, %y[%lo] : memref<64xf16>
  return
}

// What a float becomes as an integer is some integer, whatever the float.
// CHECK-LABEL: llvm.func internal @k2_body(
// CHECK: %[[I:.*]] = llvm.fptosi %{{.*}} : f32 to i32
// CHECK-NEXT: %[[F:.*]] = llvm.freeze %[[I]] : i32
// CHECK: llvm.store %[[F]]
// CHECK: llvm.fptoui %{{.*}} : f32 to i32
// CHECK-NEXT: llvm.freeze
func.func @k2(%x: memref<64xf32>, %y: memref<64xi32>, %lo: index, %hi: index, %c: memref<1xi64>) attributes {plan.reads = 1 : i64, plan.writes = 1 : i64} {
  %v = memref.load %x[%lo] : memref<64xf32>
  %s = arith.fptosi %v : f32 to i32
  memref.store %s, %y[%lo] : memref<64xi32>
  %u = arith.fptoui %v : f32 to i32
  memref.store %u, %y[%hi] : memref<64xi32>
  return
}
