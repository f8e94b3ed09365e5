// The generator from which a rank of a torchao run draws what stochastic rounding compares with: a
// 32-bit Mersenne Twister, one draw an element of the rank's own shards, in the order in which the
// scenario declares the parameters. It is state like any other: a resume that begins it anew rounds
// another way, and no loss curve shows it.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace resumecheck {

class RoundingGenerator {
 public:
  explicit RoundingGenerator(std::uint64_t seed);  // of which the low 32 bits count
  std::vector<std::uint16_t> draw(std::int64_t count);
  std::string text() const;  // all of its state
  std::string digest() const;
  void take(const std::string& text, const std::string& where);  // Error(subject) where it is none

 private:
  std::mt19937 random_;
};

}  // namespace resumecheck
