#include "comm/Secret.h"
#include "comm/Patience.h"
#include "support/Error.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

using namespace scalify::rt;

const char scalify::rt::secretWayOut[] =
    "give all ranks the same one, by export SCALIFY_SECRET=$(head -c 32 "
    "/dev/urandom | base64), or by SCALIFY_SECRET_FILE, which names a file of "
    "mode 0600 that contains it";

namespace {
constexpr size_t minCharacters = 16, maxCharacters = 4096;

std::string readVariable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

std::string readSecretFile(const std::string &path) {
  std::string what = "the file '" + path + "' of SCALIFY_SECRET_FILE ";
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(
      std::fopen(path.c_str(), "re"), std::fclose);
  if (!file)
    badArgument(what + "cannot be read: " + std::strerror(errno));
  if (std::string why = describeExposure(file.get()); !why.empty())
    badArgument(what + why);
  std::string text(maxCharacters + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (text.size() > maxCharacters)
    badArgument(what + "has more than " + std::to_string(maxCharacters) +
                " characters");
  return text;
}
} // namespace

std::string scalify::rt::describeExposure(std::FILE *file) {
  struct stat about = {};
  if (::fstat(::fileno(file), &about))
    failedCall("look at a file");
  if (!S_ISREG(about.st_mode))
    return "is no regular file";
  // A container's secrets may belong to root.
  if (about.st_uid != ::geteuid() && about.st_uid != 0)
    return "belongs to another user";
  if ((about.st_mode & 077) == 0)
    return "";
  char mode[8] = "";
  std::snprintf(mode, sizeof(mode), "0%03o", unsigned(about.st_mode) & 0777u);
  return std::string("is open to other users: it has mode ") + mode +
         ", not 0600";
}

std::string scalify::rt::readSecret() {
  std::string secret = readVariable("SCALIFY_SECRET");
  std::string path = readVariable("SCALIFY_SECRET_FILE");
  if (!secret.empty() && !path.empty())
    badArgument("both SCALIFY_SECRET and SCALIFY_SECRET_FILE are set: unset "
                "one");
  if (!path.empty())
    secret = readSecretFile(path);
  // An editor ends a file with a new line.
  secret.erase(secret.find_last_not_of(" \t\r\n") + 1);
  if ((!path.empty() || !secret.empty()) && secret.size() < minCharacters)
    badArgument(
        std::string(path.empty() ? "SCALIFY_SECRET" : "SCALIFY_SECRET_FILE") +
        " has fewer than " + std::to_string(minCharacters) + " characters; " +
        secretWayOut);
  return secret;
}

std::string scalify::rt::makeSecret() {
  unsigned char bytes[32];
  if (::getentropy(bytes, sizeof(bytes)))
    failedCall("get random bytes");
  std::string text;
  for (unsigned char byte : bytes)
    for (int digit : {byte >> 4, byte & 15})
      text += "0123456789abcdef"[digit];
  return text;
}
