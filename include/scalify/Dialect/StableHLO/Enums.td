//===- Enums.td - Enumerations of the stablehlo dialect ----*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_ENUMS
#define SCALIFY_DIALECT_STABLEHLO_ENUMS

include "mlir/IR/EnumAttr.td"
include "scalify/Dialect/StableHLO/Dialect.td"

class StableHLO_Enum<string cppName, string what, list<string> names>
    : I32EnumAttr<cppName, what,
                  !foreach(i, !range(!size(names)),
                           I32EnumAttrCase<names[i], i>)> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::scalify::stablehlo";
}

// Prints as #stablehlo<mnemonic VALUE>.
class StableHLO_EnumAttr<EnumAttrInfo info, string mnemonic>
    : EnumAttr<StableHLO_Dialect, info, mnemonic>;

def StableHLO_Precision : StableHLO_Enum<
    "Precision", "precision of a product", ["DEFAULT", "HIGH", "HIGHEST"]>;
def StableHLO_PrecisionAttr
    : StableHLO_EnumAttr<StableHLO_Precision, "precision">;

def StableHLO_ComparisonDirection : StableHLO_Enum<
    "ComparisonDirection", "which comparison to perform",
    ["EQ", "NE", "GE", "GT", "LE", "LT"]>;
def StableHLO_ComparisonDirectionAttr
    : StableHLO_EnumAttr<StableHLO_ComparisonDirection, "comparison_direction">;

def StableHLO_ComparisonType : StableHLO_Enum<
    "ComparisonType", "order that a comparison uses",
    ["NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"]>;
def StableHLO_ComparisonTypeAttr
    : StableHLO_EnumAttr<StableHLO_ComparisonType, "comparison_type">;

def StableHLO_ResultAccuracyMode : StableHLO_Enum<
    "ResultAccuracyMode", "accuracy required of a transcendental function",
    ["DEFAULT", "HIGHEST", "TOLERANCE"]>;
def StableHLO_ResultAccuracyModeAttr
    : StableHLO_EnumAttr<StableHLO_ResultAccuracyMode, "result_accuracy_mode"> {
  let assemblyFormat = "`<` $value `>`";
}

def StableHLO_FftType : StableHLO_Enum<
    "FftType", "kind of Fourier transform", ["FFT", "IFFT", "RFFT", "IRFFT"]>;
def StableHLO_FftTypeAttr : StableHLO_EnumAttr<StableHLO_FftType, "fft_type">;

def StableHLO_Transpose : StableHLO_Enum<
    "Transpose", "how a triangular matrix is read",
    ["TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]>;
def StableHLO_TransposeAttr
    : StableHLO_EnumAttr<StableHLO_Transpose, "transpose">;

def StableHLO_RngDistribution : StableHLO_Enum<
    "RngDistribution", "distribution of random numbers",
    ["INVALID", "UNIFORM", "NORMAL"]>;
def StableHLO_RngDistributionAttr
    : StableHLO_EnumAttr<StableHLO_RngDistribution, "rng_distribution">;

def StableHLO_RngAlgorithm : StableHLO_Enum<
    "RngAlgorithm", "generator of random bits",
    ["DEFAULT", "THREE_FRY", "PHILOX"]>;
def StableHLO_RngAlgorithmAttr
    : StableHLO_EnumAttr<StableHLO_RngAlgorithm, "rng_algorithm">;

// Kept as a plain i32 in the text: `api_version = 2 : i32`.
def StableHLO_CustomCallApiVersionAttr : I32EnumAttr<
    "CustomCallApiVersion", "calling convention of a custom call", [
      I32EnumAttrCase<"API_VERSION_UNSPECIFIED", 0>,
      I32EnumAttrCase<"API_VERSION_ORIGINAL", 1>,
      I32EnumAttrCase<"API_VERSION_STATUS_RETURNING", 2>,
      I32EnumAttrCase<"API_VERSION_STATUS_RETURNING_UNIFIED", 3>,
      I32EnumAttrCase<"API_VERSION_TYPED_FFI", 4>]> {
  let cppNamespace = "::scalify::stablehlo";
}

#endif // SCALIFY_DIALECT_STABLEHLO_ENUMS
