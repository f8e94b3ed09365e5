// libFuzzer's entry: any bytes, read as a rank's state file, give the contents or an Error. Build
// and run: cmake -DRESUMECHECK_FUZZ=ON ..., ninja fuzz_safetensors,
// build/fuzz_safetensors -max_total_time=60

#include <cstddef>
#include <cstdint>

#include "harness/state/damaged_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static resumecheck::MemoryFile file;
  file.set(std::as_bytes(std::span(data, size)));
  resumecheck::accepts(file.path());
  return 0;
}
