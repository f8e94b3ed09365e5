// One file may state one property of many combinations: [vary] gives a list of values for some
// keys, and the file is read once for every combination, in the order written, the last key
// changing fastest. Which combination a case is stands in its name, so that none is left out or
// taken for another.
//
//   [vary]
//   "optimizer.name" = ["adamw8bit", "adamw4bit"]
//   param_dtype = ["fp32", "bf16"]
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/scenario/toml_document.h"

namespace resumecheck {

using Choices = std::vector<std::pair<std::string, std::string>>;  // path -> text, as written

struct Variant {
  Choices choices;    // none for a document without [vary]
  TomlNode document;  // without [vary], the chosen values in their places
};

// Throws Error(usage) with file:line:column; an unknown key, an empty list, one value, a value
// twice, more than 64 combinations, and what cannot stand in a case's name are refused.
std::vector<Variant> variants_of(const TomlNode& document, const std::string& file);

std::string variant_text(const Choices& choices);  // "adamw4bit,bf16,full"

// The choices that decide which bits the reference computes, joined for a golden's file name:
// "adamw4bit-bf16". How it is saved and how an adapter wraps parameters decide none.
std::string golden_variant(const Scenario& scenario);
// The scenario's name, with golden_variant() behind a dot where there is one.
std::string golden_name(const Scenario& scenario);

}  // namespace resumecheck
