//===- ArgumentRoles.cpp - Roles as an input of compilation ---------------===//

#include "ArgumentRoles.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Import/ArgumentRoles.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace scalify;

static std::string listRoles() {
  SmallVector<StringRef> names;
  for (unsigned role = 0; role <= getMaxEnumValForRole(); ++role)
    names.push_back(stringifyRole(static_cast<Role>(role)));
  return llvm::join(names, ", ");
}

/// True if a convention of names may replace the role of an argument.
static bool isReplaced(func::FuncOp main, unsigned index,
                       ArrayRef<std::string> over, ArrayRef<bool> byName) {
  RoleAttr role = getRoleAttr(main, index);
  return role && byName[index] &&
         isa<FloatType>(
             getElementTypeOrSelf(main.getArgument(index).getType())) &&
         llvm::is_contained(over, stringifyRole(role.getValue()).str());
}

static LogicalResult applyRole(func::FuncOp main, const ArgumentRole &role,
                               ArrayRef<bool> byName,
                               SmallVectorImpl<bool> &isGiven) {
  std::optional<Role> given = symbolizeRole(role.role);
  if (!given)
    return main.emitOpError("cannot give arguments '")
           << role.pattern << "' the role '" << role.role
           << "': expected one of " << listRoles();
  llvm::Regex pattern(role.pattern);
  std::string error;
  if (!pattern.isValid(error))
    return main.emitOpError("cannot give a role to arguments '")
           << role.pattern << "', which is no regular expression: " << error;
  bool isConvention = !role.over.empty(), isMet = false;
  for (BlockArgument argument : main.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (!pattern.match(getArgumentName(argument)) ||
        (isConvention && !isReplaced(main, index, role.over, byName)))
      continue;
    isMet = true;
    if (!isGiven[index])
      main.setArgAttr(index, kRoleAttr,
                      RoleAttr::get(main.getContext(), *given));
    isGiven[index] = true;
  }
  if (isMet || isConvention)
    return success();
  constexpr size_t kShown = 32;
  auto names = llvm::to_vector(
      llvm::map_range(main.getArguments().take_front(kShown), getArgumentName));
  return main.emitOpError("has no argument '")
         << role.pattern << "' to give the role '" << role.role
         << "': they are " << llvm::join(names, ", ")
         << (main.getNumArguments() > kShown ? ", .." : "");
}

LogicalResult scalify::applyArgumentRoles(ModuleOp module,
                                          ArrayRef<ArgumentRole> roles) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (roles.empty() || !main)
    return success();
  SmallVector<bool> isGiven(main.getNumArguments());
  SmallVector<bool> byName(main.getNumArguments());
  // Of a module before Import no argument has a role to replace.
  if (main.getNumArguments() > 0 && getRoleAttr(main, 0))
    byName = findArgumentsByName(main);
  for (const ArgumentRole &role : roles)
    if (failed(applyRole(main, role, byName, isGiven)))
      return failure();
  return success();
}
