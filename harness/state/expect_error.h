// For tests: a call must throw Error of a kind, and its one line must hold the given words, so that
// a person would find the place.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "harness/state/error.h"

namespace resumecheck {

template <typename Call>
void expect_error(Error::Kind kind, std::initializer_list<std::string> words, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.kind(), kind) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << "an error is one line: " << text;
    for (const std::string& word : words) {
      EXPECT_NE(text.find(word), std::string::npos)
          << "the error should say '" << word << "', but is: " << text;
    }
    return;
  }
  ADD_FAILURE() << "accepted without an Error"
                << (words.size() ? ", where one should say '" + *words.begin() + "'" : "");
}

}  // namespace resumecheck
