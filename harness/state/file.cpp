#include "harness/state/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "harness/state/error.h"

namespace resumecheck {
namespace {

Error file_error(const std::filesystem::path& file, const std::string& what, int number) {
  return Error(Error::Kind::harness, file.string(), what + ": " + std::strerror(number));
}

// Closes on every way out; close() itself is called where its answer counts.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  int close() {
    const int result = ::close(number_);
    number_ = -1;
    return result;
  }

 private:
  int number_;
};

// Unlinks the temporary file unless it became the real one.
class Temporary {
 public:
  explicit Temporary(const std::filesystem::path& target) {
    static std::atomic<unsigned> count{0};
    path_ = target.parent_path() /
            fmt::format(".{}.writing-{}-{}", target.filename().string(), ::getpid(), count++);
  }
  ~Temporary() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  const std::filesystem::path& path() const { return path_; }
  void is_in_place() { path_.clear(); }

 private:
  std::filesystem::path path_;
};

void write_all(int descriptor, std::span<const std::byte> bytes,
               const std::filesystem::path& file) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw file_error(file, "cannot be written", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

}  // namespace

void write_file(const std::filesystem::path& file,
                std::initializer_list<std::span<const std::byte>> bytes, Durability durability) {
  write_file(file, std::span(bytes.begin(), bytes.size()), durability);
}

void write_file(const std::filesystem::path& file,
                std::span<const std::span<const std::byte>> pieces, Durability durability) {
  Temporary temporary(file);
  Descriptor descriptor(
      ::open(temporary.path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (descriptor.get() < 0) throw file_error(file, "cannot be written", errno);
  for (const std::span<const std::byte> piece : pieces) write_all(descriptor.get(), piece, file);
  if (durability == Durability::survives_power_loss && ::fsync(descriptor.get()) != 0) {
    throw file_error(file, "cannot be written", errno);
  }
  if (descriptor.close() != 0) throw file_error(file, "cannot be written", errno);
  if (::rename(temporary.path().c_str(), file.c_str()) != 0) {
    throw file_error(file, "cannot be put in place", errno);
  }
  temporary.is_in_place();
}

void write_file(const std::filesystem::path& file, std::span<const std::byte> bytes) {
  write_file(file, {bytes}, Durability::survives_power_loss);
}

void write_file(const std::filesystem::path& file, std::string_view text) {
  write_file(file, std::as_bytes(std::span(text.data(), text.size())));
}

FileReader::FileReader(const std::filesystem::path& file)
    : file_(file), descriptor_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) throw file_error(file, "cannot be read", errno);
  struct stat status {};
  int number = ::fstat(descriptor_, &status) != 0 ? errno : 0;
  if (number == 0 && S_ISDIR(status.st_mode)) number = EISDIR;
  if (number != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    if (number != 0) throw file_error(file, "cannot be read", number);
    throw Error(Error::Kind::harness, file.string(), "is not a regular file");
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

FileReader::~FileReader() { ::close(descriptor_); }

void FileReader::read(std::uint64_t offset, std::span<std::byte> onto) const {
  while (!onto.empty()) {
    const ssize_t got = ::pread(descriptor_, onto.data(), onto.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw file_error(file_, "cannot be read", errno);
    if (got == 0) {
      throw Error(Error::Kind::harness, file_.string() + ", byte " + std::to_string(offset),
                  "the file ends here, " + std::to_string(onto.size()) +
                      " bytes short of what it was to hold",
                  "was it cut short or rewritten while it was read?");
    }
    offset += static_cast<std::uint64_t>(got);
    onto = onto.subspan(static_cast<std::size_t>(got));
  }
}

std::string read_file(const std::filesystem::path& file) {
  const FileReader reader(file);
  std::string text(reader.size(), '\0');
  reader.read(0, std::as_writable_bytes(std::span(text.data(), text.size())));
  return text;
}

}  // namespace resumecheck
