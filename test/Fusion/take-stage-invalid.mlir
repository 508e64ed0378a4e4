// RUN: scalify-opt %s --split-input-file --scalify-take-stage --verify-diagnostics

// Each sends before it hears, and nobody is there to hear.
module attributes {plan.pipeline = {stages = 2 : i64, virtual = 1 : i64, microbatches = 2 : i64}} {
  plan.program @stage0 {
    %a = plan.temp : memref<4xf32>
    %g = plan.temp : memref<4xf32>
    // expected-error@+2 {{is never met: stages would wait for ever}}
    // expected-note@+1 {{stage 0 sends 'F0.1 x' to stage 1}}
    plan.message "F0.1 x" %a to 1 : memref<4xf32>
    plan.message "B1.0 g" %g from 1 : memref<4xf32>
  }
  plan.program @stage1 {
    %a = plan.temp : memref<4xf32>
    %g = plan.temp : memref<4xf32>
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
    // expected-error@+2 {{is never met}}
    // expected-note@+1 {{stage 0 sends 'a' to stage 1}}
    plan.message "a" %a to 1 : memref<4xf32>
    plan.message "c" %a from 2 : memref<4xf32>
  }
  plan.program @stage1 {
    %a = plan.temp : memref<4xf32>
    // expected-note@+1 {{stage 1 sends 'b' to stage 2}}
    plan.message "b" %a to 2 : memref<4xf32>
    plan.message "a" %a from 0 : memref<4xf32>
  }
  plan.program @stage2 {
    %a = plan.temp : memref<4xf32>
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
    %b = plan.temp : memref<4xf32>
    // expected-error@+1 {{'a' of 'memref<4xf32>' meets 'b' of 'memref<4xf32>'}}
    plan.message "a" %a to 1 : memref<4xf32>
    plan.message "b" %b to 1 : memref<4xf32>
  }
  plan.program @stage1 {
    %a = plan.temp : memref<4xf32>
    %b = plan.temp : memref<4xf32>
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
    // expected-error@+1 {{of stage 0 names stage 3 of 1}}
    plan.message "a" %a to 3 : memref<4xf32>
  }
}

// -----

plan.program @step {
  %a = plan.temp : memref<4xf32>
  // expected-error@+1 {{needs the rank that it goes to, or that it comes from}}
  plan.message "a" %a to 1 from 1 : memref<4xf32>
}
