//===- Passes.h - Lowering of kernels to LLVM -------------------*- C++ -*-===//

#ifndef SCALIFY_CODEGEN_PASSES_H
#define SCALIFY_CODEGEN_PASSES_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace scalify {
#define GEN_PASS_DECL
#include "scalify/Codegen/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "scalify/Codegen/Passes.h.inc"
} // namespace scalify

#endif // SCALIFY_CODEGEN_PASSES_H
