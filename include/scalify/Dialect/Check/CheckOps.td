//===- CheckOps.td - Ops that compare values in test programs -*- tablegen -*-===//
//
// The textual form is that of the StableHLO project's interpreter tests.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_CHECK_CHECKOPS
#define SCALIFY_DIALECT_CHECK_CHECKOPS

include "scalify/Dialect/StableHLO/Base.td"

def Check_Dialect : Dialect {
  let name = "check";
  let cppNamespace = "::scalify::check";
  let summary = "comparisons of values with expected ones, in test programs";
}

class Check_Op<string mnemonic, list<Trait> traits>
    : Op<Check_Dialect, mnemonic, traits>;

def Check_ExpectEqOp : Check_Op<"expect_eq", [SameTypeOperands]> {
  let summary = "expect equal elements";
  let arguments = (ins AnyTensor:$lhs, AnyTensor:$rhs);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs)";
}

def Check_ExpectEqConstOp
    : Check_Op<"expect_eq_const", [AllTypesMatch<["lhs", "value"]>]> {
  let summary = "expect the elements of a constant";
  let arguments = (ins AnyTensor:$lhs, ElementsAttr:$value);
  let assemblyFormat = "$lhs `,` $value attr-dict";
}

def Check_ExpectAlmostEqOp : Check_Op<"expect_almost_eq", [SameTypeOperands]> {
  let summary = "expect elements that differ by no more than a tolerance";
  let arguments = (ins AnyTensor:$lhs, AnyTensor:$rhs,
    DefaultValuedOptionalAttr<F64Attr, "1e-4">:$tolerance);
  let assemblyFormat = [{
    $lhs `,` $rhs (`,` `tolerance` `=` $tolerance^)? attr-dict `:` type($lhs)
  }];
}

def Check_ExpectAlmostEqConstOp
    : Check_Op<"expect_almost_eq_const", [AllTypesMatch<["lhs", "value"]>]> {
  let summary = "expect the elements of a constant, to within a tolerance";
  let arguments = (ins AnyTensor:$lhs, ElementsAttr:$value,
    DefaultValuedOptionalAttr<F64Attr, "1e-4">:$tolerance);
  let assemblyFormat = [{
    $lhs `,` $value (`,` `tolerance` `=` $tolerance^)? attr-dict
  }];
}

def Check_ExpectCloseOp
    : Check_Op<"expect_close", [AllTypesMatch<["actual", "expected"]>]> {
  let summary = "expect elements that are few representable numbers apart";
  let arguments = (ins AnyTensor:$actual, AnyTensor:$expected,
    DefaultValuedAttr<UI64Attr, "1">:$max_ulp_difference,
    DefaultValuedOptionalAttr<UI64Attr, "0">:$min_ulp_difference);
  let assemblyFormat = [{
    $actual `,` $expected `,` `max_ulp_difference` `=` $max_ulp_difference
    (`,` `min_ulp_difference` `=` $min_ulp_difference^)?
    `:` attr-dict type($actual) `,` type($expected)
  }];
}

#endif // SCALIFY_DIALECT_CHECK_CHECKOPS
