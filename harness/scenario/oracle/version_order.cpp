// Reads pairs of versions, one pair a line with a tab between, and answers each with -1, 0, 1, or
// "refused". The Python package `packaging` is asked the same by version_oracle_test.py.
#include <cstdio>
#include <iostream>
#include <string>

#include "harness/scenario/expression.h"
#include "harness/state/error.h"

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const std::size_t tab = line.find('\t');
    try {
      const std::string right = tab == line.npos ? std::string() : line.substr(tab + 1);
      std::printf("%d\n", resumecheck::compare_versions(line.substr(0, tab), right));
    } catch (const resumecheck::Error&) {
      std::puts("refused");
    }
  }
}
