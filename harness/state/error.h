// Every failure that a person can cause or must act on is one Error: where it was found, what is
// wrong there, and the cure, in one line. It is the only exception that crosses a library boundary,
// and its kind decides the exit code, so that no caller has to guess from a text whose fault
// something was.
#pragma once

#include <stdexcept>
#include <string>

namespace resumecheck {

class Error : public std::runtime_error {
 public:
  enum class Kind {
    usage,    // the person asked for something impossible: exit code 2
    harness,  // the harness, its launcher or an environment could not do its work: exit code 3
    subject,  // what the program under test wrote or did: a FAIL of the case, never an ERROR
  };

  // where: "file", "file:line" or "file, byte 17"; what: what is wrong; cure: what to do about it
  // (may be empty).
  Error(Kind kind, std::string where, std::string what, std::string cure = {});

  Kind kind() const { return kind_; }
  const std::string& where() const { return where_; }
  const std::string& problem() const { return what_; }
  const std::string& cure() const { return cure_; }

 private:
  Kind kind_;
  std::string where_;
  std::string what_;
  std::string cure_;
};

}  // namespace resumecheck
