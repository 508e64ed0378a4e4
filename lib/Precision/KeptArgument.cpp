//===- KeptArgument.cpp - State that the compiler adds to main ------------===//

#include "scalify/Precision/KeptArgument.h"
#include "scalify/Dialect/Scalify/Donation.h"

#include "scalify/Dialect/Scalify/Scalify.h"

using namespace mlir;
using namespace scalify;

FailureOr<BlockArgument>
scalify::addKeptArgument(func::FuncOp main, RankedTensorType type,
                         StringRef name, ArrayRef<NamedAttribute> attrs) {
  Builder builder(main.getContext());
  unsigned index = main.getNumArguments(), result = main.getNumResults();
  SmallVector<NamedAttribute> all(attrs);
  all.push_back(builder.getNamedAttr(kNameAttr, builder.getStringAttr(name)));
  all.push_back(builder.getNamedAttr(
      kRoleAttr, RoleAttr::get(builder.getContext(), Role::State)));
  all.push_back(builder.getNamedAttr(
      kAliasAttr, builder.getI32IntegerAttr(static_cast<int32_t>(result))));
  DictionaryAttr info = builder.getDictionaryAttr(
      builder.getNamedAttr("jax.result_info", builder.getStringAttr(name)));
  if (failed(main.insertArgument(index, type, builder.getDictionaryAttr(all),
                                 main.getLoc())) ||
      failed(main.insertResult(result, type, info)))
    return failure();
  return main.getArgument(index);
}
