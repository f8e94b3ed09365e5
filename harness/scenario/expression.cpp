#include "harness/scenario/expression.h"

#include <optional>
#include <vector>

#include "harness/scenario/mesh.h"
#include "harness/scenario/names.h"
#include "harness/scenario/nearest_name.h"
#include "harness/scenario/one_line.h"
#include "harness/scenario/scenario.h"
#include "harness/scenario/version.h"
#include "harness/state/error.h"

namespace resumecheck {
namespace {

const Names known_words = {"adapter",     "device",      "from",    "onto", "optimizer",
                           "param_dtype", "save_format", "profile", "wrap"};
constexpr int deepest_nesting = 64;

bool is_word(const std::string& name) { return contains(known_words, name); }

// Of any adapter; nothing where a mesh is meant.
Names values_of(const std::string& word) {
  if (word == "device") return {"cpu", "cuda"};
  if (word == "optimizer") return optimizer_names();
  if (word == "param_dtype") return {"fp32", "bf16"};
  if (word == "profile") return profile_names();
  Names names;
  for (const AdapterDeclaration& adapter : adapter_declarations()) {
    if (word == "adapter") {
      names.push_back(adapter.name);
    } else if (word == "save_format") {
      names.insert(names.end(), adapter.save_formats.begin(), adapter.save_formats.end());
    } else if (const auto wrap = adapter.options.find("wrap");
               word == "wrap" && wrap != adapter.options.end()) {
      names.insert(names.end(), wrap->second.begin(), wrap->second.end());
    }
  }
  return names;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_character(char c) {
  return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-';
}

// PEP 503: transformer_engine and transformer-engine are one package.
std::string normalised(std::string_view package) {
  std::string normal;
  for (const char c : package) {
    if (c == '-' || c == '_' || c == '.') {
      if (normal.empty() || normal.back() != '-') normal += '-';
    } else {
      normal += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  return normal;
}

struct Token {
  enum class Kind { name, text, comparison, open, close, end };
  Kind kind = Kind::end;
  std::string text;
  std::size_t column = 1;  // 1-based
};

// Recursive descent: or < and < not < comparison. With facts it evaluates, without it only checks;
// both sides of and/or are always read, so a mistake anywhere is found whatever the facts are.
class Evaluation {
 public:
  Evaluation(std::string_view expression, const Facts* facts, std::string_view where)
      : expression_(expression), facts_(facts), where_(where) {
    next();
  }

  bool whole() {
    if (token_.kind == Token::Kind::end) refuse(token_, "the expression is empty", "");
    const bool value = disjunction();
    if (token_.kind != Token::Kind::end) {
      refuse(token_, "'" + token_.text + "' does not continue the expression",
             "join comparisons with and, or");
    }
    return value;
  }

 private:
  [[noreturn]] void refuse(const Token& token, const std::string& what,
                           const std::string& cure) const {
    std::string where(where_);
    if (!where.empty()) where += ": ";
    throw Error(Error::Kind::usage,
                where + "column " + std::to_string(token.column) + " of \"" +
                    one_line(expression_, 200) + "\"",
                one_line(what), one_line(cure));
  }

  void next() {
    while (at_ < expression_.size() && (expression_[at_] == ' ' || expression_[at_] == '\t' ||
                                        expression_[at_] == '\n' || expression_[at_] == '\r')) {
      ++at_;
    }
    token_ = {Token::Kind::end, "the end", at_ + 1};
    if (at_ == expression_.size()) return;
    const char c = expression_[at_];
    if (c == '(' || c == ')') {
      token_ = {c == '(' ? Token::Kind::open : Token::Kind::close, std::string(1, c), at_ + 1};
      ++at_;
    } else if (c == '\'' || c == '"') {
      const std::size_t end = expression_.find(c, at_ + 1);
      if (end == expression_.npos) refuse(token_, "the text is not closed", "add the quote");
      token_ = {Token::Kind::text, std::string(expression_.substr(at_ + 1, end - at_ - 1)),
                at_ + 1};
      at_ = end + 1;
    } else if (is_letter(c)) {
      const std::size_t begin = at_;
      while (at_ < expression_.size() && is_name_character(expression_[at_])) ++at_;
      token_ = {Token::Kind::name, std::string(expression_.substr(begin, at_ - begin)), begin + 1};
    } else {
      read_comparison();
    }
  }

  void read_comparison() {
    for (const std::string_view sign : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (expression_.substr(at_, sign.size()) == sign) {
        token_ = {Token::Kind::comparison, std::string(sign), at_ + 1};
        at_ += sign.size();
        return;
      }
    }
    const char c = expression_[at_];
    if (c == '=') refuse(token_, "'=' compares nothing", "write ==");
    if (c >= '0' && c <= '9') {
      refuse(token_, "a version stands in quotes", "write torch >= '2.8'");
    }
    refuse(token_, "unexpected character", "use == != < <= > >= and or not ( )");
  }

  bool at_name(std::string_view name) const {
    return token_.kind == Token::Kind::name && token_.text == name;
  }

  bool disjunction() {
    bool value = conjunction();
    while (at_name("or")) {
      next();
      const bool right = conjunction();
      value = value || right;
    }
    return value;
  }

  bool conjunction() {
    bool value = negation();
    while (at_name("and")) {
      next();
      const bool right = negation();
      value = value && right;
    }
    return value;
  }

  bool negation() {
    bool negated = false;
    while (at_name("not")) {
      next();
      negated = !negated;
    }
    return primary() != negated;
  }

  bool primary() {
    if (token_.kind != Token::Kind::open) return comparison();
    if (++depth_ > deepest_nesting) refuse(token_, "nested too deeply", "use fewer parentheses");
    next();
    const bool value = disjunction();
    if (token_.kind != Token::Kind::close)
      refuse(token_, "a ) is missing", "close the parenthesis");
    --depth_;
    next();
    return value;
  }

  Token operand() {
    const Token token = token_;
    const bool keyword = at_name("and") || at_name("or") || at_name("not");
    if ((token.kind != Token::Kind::name && token.kind != Token::Kind::text) || keyword) {
      refuse(token, "expected a name or a quoted text, found '" + token.text + "'", "");
    }
    next();
    return token;
  }

  bool comparison() {
    const Token left = operand();
    const Token sign = token_;
    if (sign.kind != Token::Kind::comparison) {
      refuse(sign, "'" + left.text + "' is compared with nothing",
             "write for example " + (left.kind == Token::Kind::name ? left.text : "torch") +
                 " == '...'");
    }
    next();
    const Token right = operand();
    if (left.kind == Token::Kind::text && right.kind == Token::Kind::text) {
      refuse(left, "two texts are compared", "one side must be a name");
    }
    const bool left_is_word = left.kind == Token::Kind::name && is_word(left.text);
    const bool right_is_word = right.kind == Token::Kind::name && is_word(right.text);
    if (left_is_word || right_is_word) return compare_words(left, sign, right);
    return compare_packages(left, sign, right);
  }

  bool compare_words(const Token& left, const Token& sign, const Token& right) {
    if (sign.text != "==" && sign.text != "!=") {
      refuse(sign, "words have no order", "use == or !=");
    }
    for (const Token* side : {&left, &right}) {
      if (side->kind == Token::Kind::name && !is_word(side->text)) {
        refuse(*side, "'" + side->text + "' is no word, and a word is compared with it",
               "put a value in quotes");
      }
    }
    if (left.kind == Token::Kind::text) check_value(right.text, left);
    if (right.kind == Token::Kind::text) check_value(left.text, right);
    if (facts_ == nullptr) return false;
    return (word_value(left) == word_value(right)) == (sign.text == "==");
  }

  // A misspelt adapter or mesh would make the comparison false for ever, without a sign.
  void check_value(const std::string& word, const Token& value) {
    if (facts_ != nullptr) return;
    if (word == "from" || word == "onto") {
      check_mesh(value);
      return;
    }
    const Names known = values_of(word);
    const bool none = word == "wrap" && value.text.empty();  // of adapters that have no such option
    if (none || contains(known, value.text)) return;
    refuse(value, "no " + word + " is called '" + value.text + "'",
           word == "device" ? "known: " + joined(known) : did_you_mean(value.text, known));
  }

  void check_mesh(const Token& value) {
    try {
      Mesh::parse(value.text);
    } catch (const Error& error) {
      refuse(value, error.where() + ": " + error.problem(), error.cure());
    }
  }

  std::string word_value(const Token& token) const {
    if (token.kind == Token::Kind::text) return token.text;
    const auto found = facts_->words.find(token.text);
    return found == facts_->words.end() ? std::string() : found->second;
  }

  // "save.torch", "load.torch"; a bare package means load.
  std::string package_key(const Token& token) const {
    std::string side = "load";
    std::string package = token.text;
    const std::size_t dot = package.find('.');
    if (dot != package.npos) {
      side = package.substr(0, dot);
      package = package.substr(dot + 1);
      if (side != "save" && side != "load") {
        refuse(token, "'" + token.text + "' is unknown",
               "write save." + package + ", load." + package + " or " + package);
      }
    }
    if (package.empty() || package.back() == '.' || package.back() == '-') {
      refuse(token, "'" + token.text + "' names no package", "write save.torch or load.torch");
    }
    return side + "." + normalised(package);
  }

  std::optional<Version> installed(const std::string& key, const Token& token) const {
    if (facts_ == nullptr) return std::nullopt;
    for (const auto& [name, text] : facts_->versions) {
      const std::size_t dot = name.find('.');
      if (dot == name.npos) continue;
      if (name.substr(0, dot + 1) + normalised(name.substr(dot + 1)) != key) continue;
      auto version = Version::parse(text);
      if (!version) {
        refuse(token,
               "the installed " + name + " has version '" + text +
                   "', which PEP 440 "
                   "does not know",
               "mend that environment");
      }
      return version;
    }
    return std::nullopt;
  }

  Version literal(const Token& text, const Token& name) const {
    if (auto version = Version::parse(text.text)) return *version;
    std::string cure = "quote a version such as '2.8.0'";
    if (const auto word = nearest_name(name.text, known_words)) {
      cure = "did you mean '" + *word + "' for '" + name.text + "'?";
    }
    refuse(text,
           "'" + text.text + "' is no version, and '" + name.text + "' is none of " +
               joined(known_words),
           cure);
  }

  bool compare_packages(const Token& left, const Token& sign, const Token& right) {
    std::optional<Version> sides[2];
    const Token* tokens[2] = {&left, &right};
    for (int i = 0; i < 2; ++i) {
      const Token& token = *tokens[i];
      const Token& other = *tokens[1 - i];
      if (token.kind == Token::Kind::text) {
        sides[i] = literal(token, other);
      } else {
        sides[i] = installed(package_key(token), token);
      }
    }
    if (!sides[0] || !sides[1]) return false;
    // PEP 440: a version written without a local label means every local build of it.
    for (int i = 0; i < 2; ++i) {
      if (tokens[i]->kind == Token::Kind::text && !sides[i]->has_local()) {
        sides[1 - i] = sides[1 - i]->without_local();
      }
    }
    const auto order = *sides[0] <=> *sides[1];
    if (sign.text == "==") return order == 0;
    if (sign.text == "!=") return order != 0;
    if (sign.text == "<") return order < 0;
    if (sign.text == "<=") return order <= 0;
    if (sign.text == ">") return order > 0;
    return order >= 0;
  }

  std::string_view expression_;
  const Facts* facts_;
  std::string_view where_;
  std::size_t at_ = 0;
  int depth_ = 0;
  Token token_;
};

}  // namespace

bool evaluate(std::string_view expression, const Facts& facts, std::string_view where) {
  return Evaluation(expression, &facts, where).whole();
}

void check_expression(std::string_view expression, std::string_view where) {
  Evaluation(expression, nullptr, where).whole();
}

}  // namespace resumecheck
