#include "harness/adapters/reference/rounding_generator.h"

#include <algorithm>
#include <locale>
#include <sstream>
#include <string_view>

#include "harness/state/digest.h"
#include "harness/state/error.h"

namespace resumecheck {

RoundingGenerator::RoundingGenerator(std::uint64_t seed)
    : random_(static_cast<std::uint32_t>(seed)) {}

std::vector<std::uint16_t> RoundingGenerator::draw(std::int64_t count) {
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(count));
  std::generate(bits.begin(), bits.end(),
                [this] { return static_cast<std::uint16_t>(random_() & 0xffffU); });
  return bits;
}

std::string RoundingGenerator::text() const {
  std::ostringstream stream;
  stream.imbue(std::locale::classic());
  stream << random_;
  return stream.str();
}

std::string RoundingGenerator::digest() const {
  return resumecheck::digest(std::string_view(text()));
}

void RoundingGenerator::take(const std::string& text, const std::string& where) {
  std::istringstream stream(text);
  stream.imbue(std::locale::classic());
  std::mt19937 random;
  stream >> random;
  if (!stream) {
    throw Error(Error::Kind::subject, where, "is not the state of a Mersenne Twister",
                "load a checkpoint that this version saved");
  }
  random_ = random;
}

}  // namespace resumecheck
