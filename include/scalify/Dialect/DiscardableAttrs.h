//===- DiscardableAttrs.h - Verify discardable attributes -------*- C++ -*-===//
//
// The stages pass decisions on as discardable attributes. MLIR keeps attributes
// of any name, so a misspelt name would lose a decision. Each dialect therefore
// has a table of its attributes: every name, its places, and its kind.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_DISCARDABLEATTRS_H
#define SCALIFY_DIALECT_DISCARDABLEATTRS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"

#include "llvm/ADT/StringMap.h"

namespace scalify::discardable {

/// The places where an attribute is allowed.
enum Place : unsigned { OnOp = 1, OnArgument = 2, OnResult = 4, OnModule = 8 };

/// The kinds of attributes.
struct Kind {
  bool (*fits)(mlir::Attribute);
  llvm::StringLiteral expected;
};

struct Entry {
  llvm::StringLiteral name; // with the dialect's
  unsigned places;
  Kind kind;
  /// Those of `places` where a program that comes to Import may have it.
  unsigned ofInput = 0;
};

template <typename Attr> bool is(mlir::Attribute attr) {
  return llvm::isa<Attr>(attr);
}

/// An array of such attributes.
template <typename Attr> bool areAll(mlir::Attribute attr) {
  auto list = llvm::dyn_cast_or_null<mlir::ArrayAttr>(attr);
  return list && llvm::all_of(list, llvm::IsaPred<Attr>);
}

/// An integer that IntegerAttr::getInt returns.
inline bool isNumber(mlir::Attribute attr) {
  auto number = llvm::dyn_cast<mlir::IntegerAttr>(attr);
  return number && (number.getType().isIndex() ||
                    (number.getType().isSignlessInteger() &&
                     number.getType().getIntOrFloatBitWidth() <= 64));
}

inline constexpr Kind kFlag{is<mlir::UnitAttr>, "a unit attribute"};
inline constexpr Kind kText{is<mlir::StringAttr>, "a string"};
inline constexpr Kind kNumber{isNumber, "an integer"};
inline constexpr Kind kNumbers32{is<mlir::DenseI32ArrayAttr>,
                                 "an array of i32"};
inline constexpr Kind kNumbers64{is<mlir::DenseI64ArrayAttr>,
                                 "an array of i64"};
inline constexpr Kind kList{is<mlir::ArrayAttr>, "an array"};
inline constexpr Kind kRecord{is<mlir::DictionaryAttr>, "a dictionary"};
inline constexpr Kind kRecords{areAll<mlir::DictionaryAttr>,
                               "an array of dictionaries"};

/// The attributes of a dialect.
class Table {
public:
  Table(llvm::StringRef dialect, llvm::ArrayRef<Entry> entries)
      : dialect(dialect) {
    for (const Entry &entry : entries)
      byName[entry.name] = &entry;
  }

  /// Emits an error, and fails, if the attribute is not in the table, not at
  /// its place or not of its kind. `where` describes the place.
  mlir::LogicalResult verify(mlir::Operation *op, mlir::NamedAttribute attr,
                             Place place, llvm::StringRef where) const {
    llvm::StringRef name = attr.getName().strref();
    const Entry *entry = byName.lookup(name);
    if (!entry)
      return op->emitOpError("has an attribute '")
             << name << "' that the " << dialect << " dialect does not know";
    if (!(entry->places & place))
      return op->emitOpError("has '")
             << name << "' on " << where << ", where it does not belong";
    if (!entry->kind.fits(attr.getValue()))
      return op->emitOpError("has '")
             << name << "' = " << attr.getValue() << " on " << where
             << ": expected " << entry->kind.expected;
    return mlir::success();
  }

  /// The same for an attribute on an op itself.
  mlir::LogicalResult verify(mlir::Operation *op,
                             mlir::NamedAttribute attr) const {
    return llvm::isa<mlir::ModuleOp>(op)
               ? verify(op, attr, OnModule, "the module")
               : verify(op, attr, OnOp, "the op");
  }

  /// Emits an error, and fails, if a verified attribute is not one of an input,
  /// but a decision of a stage.
  mlir::LogicalResult verifyInput(mlir::Operation *op,
                                  mlir::NamedAttribute attr,
                                  Place place) const {
    llvm::StringRef name = attr.getName().strref();
    const Entry *entry = byName.lookup(name);
    if (entry && (entry->ofInput & place))
      return mlir::success();
    return op->emitOpError("has '")
           << name << "', which a stage of the compiler decides; remove it";
  }

private:
  llvm::StringRef dialect;
  llvm::StringMap<const Entry *> byName;
};

} // namespace scalify::discardable

#endif // SCALIFY_DIALECT_DISCARDABLEATTRS_H
