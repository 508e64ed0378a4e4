// RUN: scalify-opt %s --scalify-assign-buffers -verify-diagnostics

plan.program @step {
  // expected-error @+1 {{'plan.argument' op has elements of 'i4', which an artefact cannot hold; make them 8 bits wide, and narrow them where they are used}}
  %x = plan.argument 0 : memref<16xi4>
}
