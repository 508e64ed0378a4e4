// The manifest contains the offsets of sections, which depend on its length:
// whatever its length, each section is at its offset.
#include "scalify/Target/Artefact/Manifest.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/Endian.h"

#include <gtest/gtest.h>

#include <limits>

using namespace scalify;

TEST(Assemble, SectionsLieWhereTheTextSays) {
  mlir::MLIRContext context;
  auto loc = mlir::UnknownLoc::get(&context);
  // All lengths within a page, to cover each case of rounding.
  for (size_t length = 0; length < 4096; ++length) {
    PlanText text;
    text.manifest["recipe"] = "none";
    text.manifest["remarks"] = std::string(length, 'x');
    std::string file = *assembleArtefact(
        loc, text, {{"kernels", "first"}, {"constants", "second"}});
    size_t header = llvm::support::endian::read64le(file.data() + 8);
    ASSERT_EQ(llvm::support::endian::read64le(file.data() + 16), file.size());
    auto parsed = llvm::json::parse(llvm::StringRef(file).substr(32, header));
    ASSERT_TRUE(bool(parsed)) << llvm::toString(parsed.takeError());
    const llvm::json::Object *places =
        parsed->getAsObject()->getObject("sections");
    for (auto [name, bytes] :
         {std::pair("kernels", "first"), std::pair("constants", "second")}) {
      const llvm::json::Object *place = places->getObject(name);
      EXPECT_EQ(
          file.substr(*place->getInteger("offset"), *place->getInteger("size")),
          bytes)
          << "with " << length << " more characters";
    }
  }
}

TEST(Assemble, NumbersThatJSONLacksAreRefused) {
  mlir::MLIRContext context;
  for (double number : {std::numeric_limits<double>::infinity(),
                        std::numeric_limits<double>::quiet_NaN()}) {
    PlanText text;
    text.manifest["recipe"] = "none";
    text.manifest["commands"] =
        llvm::json::Array{llvm::json::Object{{"alpha", number}}};
    std::string message;
    mlir::ScopedDiagnosticHandler handler(
        &context, [&](mlir::Diagnostic &error) { message = error.str(); });
    EXPECT_TRUE(mlir::failed(
        assembleArtefact(mlir::UnknownLoc::get(&context), text, {})));
    EXPECT_NE(message.find("in 'alpha' at 'commands'"), std::string::npos)
        << message;
  }
}
