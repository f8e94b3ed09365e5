#include "harness/scenario/version.h"

#include <algorithm>

#include "harness/scenario/expression.h"
#include "harness/scenario/one_line.h"
#include "harness/state/error.h"

namespace resumecheck {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return c >= 'a' && c <= 'z'; }
bool is_separator(char c) { return c == '.' || c == '-' || c == '_'; }

std::string lower_and_trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::strong_ordering compare_numbers(const std::string& left, const std::string& right) {
  if (left.size() != right.size()) return left.size() <=> right.size();
  return left.compare(right) <=> 0;
}

// Reads from the front of a text; every take_ either advances or leaves the place as it was.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool done() const { return at_ == text_.size(); }
  std::size_t place() const { return at_; }
  void back_to(std::size_t place) { at_ = place; }

  bool take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  bool take_separator() {
    if (done() || !is_separator(text_[at_])) return false;
    ++at_;
    return true;
  }
  std::optional<std::string> take_number() {
    const std::size_t begin = at_;
    while (!done() && is_digit(text_[at_])) ++at_;
    if (begin == at_) return std::nullopt;
    const std::string_view digits = text_.substr(begin, at_ - begin);
    const std::size_t first = digits.find_first_not_of('0');
    return std::string(first == digits.npos ? "0" : digits.substr(first));
  }
  // The number behind a word such as rc, with an optional separator; none means 0.
  std::string take_number_or_zero() {
    take_separator();
    return take_number().value_or("0");
  }
  std::string_view take_alphanumeric() {
    const std::size_t begin = at_;
    while (!done() && (is_digit(text_[at_]) || is_letter(text_[at_]))) ++at_;
    return text_.substr(begin, at_ - begin);
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

// "[separator]word[separator][number]" for the first of the words that stands here.
std::optional<std::pair<std::string_view, std::string>> take_tagged(
    Reader& reader, std::initializer_list<std::string_view> words) {
  const std::size_t before = reader.place();
  reader.take_separator();
  for (const std::string_view word : words) {
    if (reader.take(word)) return std::pair{word, reader.take_number_or_zero()};
  }
  reader.back_to(before);
  return std::nullopt;
}

std::optional<std::string> take_post(Reader& reader) {
  if (const auto tagged = take_tagged(reader, {"post", "rev", "r"})) return tagged->second;
  const std::size_t before = reader.place();
  if (reader.take("-")) {  // 1.0-1 is 1.0.post1
    if (auto number = reader.take_number()) return number;
  }
  reader.back_to(before);
  return std::nullopt;
}

}  // namespace

std::optional<Version> Version::parse(std::string_view text) {
  const std::string lower = lower_and_trimmed(text);
  Reader reader(lower);
  Version version;
  reader.take("v");
  const auto first = reader.take_number();
  if (!first) return std::nullopt;

  version.release_.push_back(*first);
  if (reader.take("!")) {
    version.epoch_ = *first;
    const auto release = reader.take_number();
    if (!release) return std::nullopt;
    version.release_ = {*release};
  }
  for (std::size_t before = reader.place(); reader.take("."); before = reader.place()) {
    const auto number = reader.take_number();
    if (!number) {
      reader.back_to(before);
      break;
    }
    version.release_.push_back(*number);
  }
  while (version.release_.size() > 1 && version.release_.back() == "0") version.release_.pop_back();
  if (const auto pre =
          take_tagged(reader, {"alpha", "a", "beta", "b", "preview", "pre", "c", "rc"})) {
    const char letter = pre->first[0];
    version.pre_ = letter == 'a' || letter == 'b' ? letter : 'r';
    version.pre_number_ = pre->second;
  }
  version.post_ = take_post(reader);
  if (const auto dev = take_tagged(reader, {"dev"})) version.dev_ = dev->second;
  if (reader.take("+")) {
    do {
      const std::string segment(reader.take_alphanumeric());
      if (segment.empty()) return std::nullopt;
      const bool number = std::all_of(segment.begin(), segment.end(), is_digit);
      const std::size_t significant = number ? segment.find_first_not_of('0') : 0;
      version.local_.push_back(
          {number, significant == segment.npos ? "0" : segment.substr(significant)});
    } while (reader.take_separator());
  }
  if (!reader.done()) return std::nullopt;
  return version;
}

Version Version::without_local() const {
  Version plain = *this;
  plain.local_.clear();
  return plain;
}

std::strong_ordering Version::operator<=>(const Version& other) const {
  if (const auto order = compare_numbers(epoch_, other.epoch_); order != 0) return order;
  const std::size_t parts = std::max(release_.size(), other.release_.size());
  const auto part = [](const Version& version, std::size_t i) {
    return i < version.release_.size() ? version.release_[i] : std::string("0");
  };
  for (std::size_t i = 0; i < parts; ++i) {
    if (const auto order = compare_numbers(part(*this, i), part(other, i)); order != 0) {
      return order;
    }
  }
  // 1.0.dev1 < 1.0a1.dev1 < 1.0a1 < 1.0rc1 < 1.0 < 1.0.post1
  const auto pre_rank = [](const Version& v) {
    if (v.pre_ != 0) return v.pre_ == 'a' ? 1 : v.pre_ == 'b' ? 2 : 3;
    return !v.post_ && v.dev_ ? 0 : 4;
  };
  if (const auto order = pre_rank(*this) <=> pre_rank(other); order != 0) return order;
  if (const auto order = compare_numbers(pre_number_, other.pre_number_); order != 0) return order;
  if (post_.has_value() != other.post_.has_value())
    return post_.has_value() <=> other.post_.has_value();
  if (post_) {
    if (const auto order = compare_numbers(*post_, *other.post_); order != 0) return order;
  }
  if (dev_.has_value() != other.dev_.has_value())
    return other.dev_.has_value() <=> dev_.has_value();
  if (dev_) {
    if (const auto order = compare_numbers(*dev_, *other.dev_); order != 0) return order;
  }
  for (std::size_t i = 0; i < std::min(local_.size(), other.local_.size()); ++i) {
    const Segment& left = local_[i];
    const Segment& right = other.local_[i];
    if (left.number != right.number) return left.number <=> right.number;
    const auto order =
        left.number ? compare_numbers(left.text, right.text) : left.text.compare(right.text) <=> 0;
    if (order != 0) return order;
  }
  return local_.size() <=> other.local_.size();
}

int compare_versions(std::string_view left, std::string_view right) {
  const auto parse = [](std::string_view text) {
    if (auto version = Version::parse(text)) return *version;
    throw Error(Error::Kind::usage, {}, "'" + one_line(text, 80) + "' is no version",
                "write a PEP 440 version such as 2.8.0 or 0.17.0.dev20260101");
  };
  const auto order = parse(left) <=> parse(right);
  return order < 0 ? -1 : order > 0 ? 1 : 0;
}

}  // namespace resumecheck
