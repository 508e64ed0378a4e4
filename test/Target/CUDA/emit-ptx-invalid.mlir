// RUN: scalify-opt %s --scalify-emit-ptx -verify-diagnostics

// A driver would notice first.
// expected-error @+1 {{kernels call 'elsewhere', which no kernel defines}}
gpu.module @kernels {
  llvm.func @elsewhere()
  llvm.func @k0() attributes {gpu.kernel, nvvm.kernel} {
    llvm.call @elsewhere() : () -> ()
    llvm.return
  }
}
