// RUN: scalify-opt %s --split-input-file --scalify-take-stage --verify-diagnostics

// Each sends before it hears, and nobody is there to hear.
module attributes {plan.pipeline = {stages = 2 : i64, virtual = 1 : i64, microbatches = 2 : i64}} {
  plan.program @stage0 {
    %a = plan.temp : memref<4xf32>
    plan.fill %a with 0 : memref<4xf32>
    %g = plan.temp : memref<4xf32>
    plan.fill %g with 0 : memref<4xf32>
    // expected-error@+2 {{is never met: stages would wait for ever}}
    // expected-note@+1 {{stage 0 sends 'F0.1 x' to stage 1}}
    plan.message "F0.1 x" %a to 1 : memref<4xf32>
    plan.message "B1.0 g" %g from 1 : memref<4xf32>
  }
  plan.program @stage1 {
    %a = plan.temp : memref<4xf32>
    plan.fill %a with 0 : memref<4xf32>
    %g = plan.temp : memref<4xf32>
    plan.fill %g with 0 : memref<4xf32>
    // expected-note@+1 {{stage 1 sends 'B1.0 g' to stage 0}}
    plan.message "B1.0 g" %g to 0 : memref<4xf32>
    plan.message "F0.1 x" %a from 0 : memref<4xf32>
  }
}

// -----

// A circle of three.
module attributes {plan.pipeline = {stages = 3 : i64, virtual = 1 : i64, microbatches = 1 : i64}} {
  plan.program @stage0 {
    %a = plan.temp : memref<4xf32>
    plan.fill %a with 0 : memref<4xf32>
    // expected-error@+2 {{is never met}}
    // expected-note@+1 {{stage 0 sends 'a' to stage 1}}
    plan.message "a" %a to 1 : memref<4xf32>
    plan.message "c" %a from 2 : memref<4xf32>
  }
  plan.program @stage1 {
    %a = plan.temp : memref<4xf32>
    plan.fill %a with 0 : memref<4xf32>
    // expected-note@+1 {{stage 1 sends 'b' to stage 2}}
    plan.message "b" %a to 2 : memref<4xf32>
    plan.message "a" %a from 0 : memref<4xf32>
  }
  plan.program @stage2 {
    %a = plan.temp : memref<4xf32>
    plan.fill %a with 0 : memref<4xf32>
    // expected-note@+1 {{stage 2 sends 'c' to stage 0}}
    plan.message "c" %a to 0 : memref<4xf32>
    plan.message "b" %a from 1 : memref<4xf32>
  }
}

// -----

// Two messages the other way round.
module attributes {plan.pipeline = {stages = 2 : i64, virtual = 1 : i64, microbatches = 2 : i64}} {
  plan.program @stage0 {
    %a = plan.temp : memref<4xf32>
    plan.fill %a with 0 : memref<4xf32>
    %b = plan.temp : memref<4xf32>
    plan.fill %b with 0 : memref<4xf32>
    // expected-error@+1 {{'a' of 'memref<4xf32>' meets 'b' of 'memref<4xf32>'}}
    plan.message "a" %a to 1 : memref<4xf32>
    plan.message "b" %b to 1 : memref<4xf32>
  }
  plan.program @stage1 {
    %a = plan.temp : memref<4xf32>
    plan.fill %a with 0 : memref<4xf32>
    %b = plan.temp : memref<4xf32>
    plan.fill %b with 0 : memref<4xf32>
    // expected-note@+1 {{the other end}}
    plan.message "b" %b from 0 : memref<4xf32>
    plan.message "a" %a from 0 : memref<4xf32>
  }
}

// -----

// One that nobody hears.
module attributes {plan.pipeline = {stages = 2 : i64, virtual = 1 : i64, microbatches = 1 : i64}} {
  plan.program @stage0 {
    %a = plan.temp : memref<4xf32>
    plan.fill %a with 0 : memref<4xf32>
    // expected-error@+2 {{is never met}}
    // expected-note@+1 {{stage 0 sends 'a' to stage 1}}
    plan.message "a" %a to 1 : memref<4xf32>
  }
  plan.program @stage1 {
  }
}

// -----

module attributes {plan.pipeline = {stages = 1 : i64, virtual = 1 : i64, microbatches = 1 : i64}} {
  plan.program @stage0 {
    %a = plan.temp : memref<4xf32>
    plan.fill %a with 0 : memref<4xf32>
    // expected-error@+1 {{of stage 0 names stage 3 of 1}}
    plan.message "a" %a to 3 : memref<4xf32>
  }
}

// -----

// Stages of two ranks. The first one's sum its ranks all come to, and then the
// stages wait for each other.
module attributes {plan.pipeline = {stages = 2 : i64, virtual = 1 : i64, microbatches = 1 : i64, ranks = 2 : i64}} {
  plan.program @stage0 {
    %a = plan.temp : memref<4xf32>
    plan.fill %a with 0 : memref<4xf32>
    %g = plan.temp : memref<4xf32>
    plan.fill %g with 0 : memref<4xf32>
    plan.collective all_reduce sum %g to %a groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<4xf32>, memref<4xf32>
    // expected-error@+2 {{is never met: stages would wait for ever}}
    // expected-note@+1 {{stage 0 waits for 'B1.0 g' of stage 1}}
    plan.message "B1.0 g" %g from 1 : memref<4xf32>
    plan.message "F0.0 x" %a to 1 : memref<4xf32>
  }
  plan.program @stage1 {
    %a = plan.temp : memref<4xf32>
    plan.fill %a with 0 : memref<4xf32>
    %g = plan.temp : memref<4xf32>
    plan.fill %g with 0 : memref<4xf32>
    // expected-note@+1 {{stage 1 waits for 'F0.0 x' of stage 0}}
    plan.message "F0.0 x" %a from 0 : memref<4xf32>
    plan.collective all_reduce sum %a to %g groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<4xf32>, memref<4xf32>
    plan.message "B1.0 g" %g to 0 : memref<4xf32>
  }
}

// -----

// Groups are of a stage's own ranks, and all of these.
module attributes {plan.pipeline = {stages = 1 : i64, virtual = 1 : i64, microbatches = 1 : i64, ranks = 2 : i64}} {
  plan.program @stage0 {
    %a = plan.temp : memref<4xf32>
    plan.fill %a with 0 : memref<4xf32>
    %g = plan.temp : memref<4xf32>
    plan.fill %g with 0 : memref<4xf32>
    // expected-error@+1 {{names rank 2 of a stage's 2}}
    plan.collective all_reduce sum %g to %a groups dense<[[0, 2]]> : tensor<1x2xi64> : memref<4xf32>, memref<4xf32>
  }
}

// -----

module attributes {plan.pipeline = {stages = 1 : i64, virtual = 1 : i64, microbatches = 1 : i64, ranks = 2 : i64}} {
  plan.program @stage0 {
    %a = plan.temp : memref<4xf32>
    plan.fill %a with 0 : memref<4xf32>
    %g = plan.temp : memref<4xf32>
    plan.fill %g with 0 : memref<4xf32>
    // expected-error@+1 {{leaves out rank 1 of the 2 that there are}}
    plan.collective all_reduce sum %g to %a groups dense<[[0]]> : tensor<1x1xi64> : memref<4xf32>, memref<4xf32>
  }
}

// -----

plan.program @step {
  %a = plan.temp : memref<4xf32>
  // expected-error@+1 {{needs one of 'to' and 'from', not both}}
  plan.message "a" %a to 1 from 1 : memref<4xf32>
}
