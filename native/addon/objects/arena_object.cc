#include "arena_object.h"

#include "../../transfer/shared_blocks.h"
#include "../base/backend.h"

namespace blockstep {
namespace {

/// The id of an arena; empty if there is none.
std::string read_arena_id(Napi::Value config, const char* name) {
  const Napi::Value value = read_property(config, name);
  if (value.IsUndefined()) return {};
  const std::string id = value.IsString() ? value.As<Napi::String>().Utf8Value() : "";
  const bool is_id = id.size() == kArenaIdDigits && id.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_id) Call::refuse(name, "32 hexadecimal digits", value);
  return id;
}

/// The memory as an ArrayBuffer that shares it. The arena lives as long as either of them.
Napi::Value buffer(const Call& call) {
  using Share = std::shared_ptr<BlockArena>;
  const Share& arena = Wrapped<BlockArena>::receiver(call).owned();
  const u64 bytes = arena->bytes();
  if (arena->place() == Place::kDevice) throw Error{kLimit, "an ArrayBuffer cannot show memory of a GPU: use readBlock()"};
  if (bytes > kNone) throw Error{kLimit, "an ArrayBuffer must have at most " + std::to_string(kNone) + " bytes, got " + std::to_string(bytes)};
  auto share = std::make_unique<Share>(arena);
  const auto drop = [](napi_env, void*, void* hint) { delete static_cast<Share*>(hint); };
  napi_value result;
  const napi_status status = napi_create_external_arraybuffer(call.env, arena->base(), static_cast<std::size_t>(bytes),
                                                              drop, share.get(), &result);
  if (status == napi_no_external_buffers_allowed) {
    throw Error{kLimit, "this runtime allows no ArrayBuffer over native memory"};
  }
  require_ok(status);
  share.release();  // drop() owns it
  return {call.env, result};
}

Napi::Value pointer(const Call& call) {
  return call.bigint(reinterpret_cast<std::uintptr_t>(receiver<BlockArena>(call).base()));
}

u32 read_block_id(const Call& call, const BlockArena& arena) {
  return call.integer(0, "block", 0, arena.num_blocks() - 1);
}

/// The bytes of one block, of exactly its size.
void* block_bytes(const Call& call, const BlockArena& arena) {
  const auto bytes = Call::typed_array<u8>(call[1], "bytes", napi_uint8_array, "a Uint8Array");
  if (bytes.size == arena.bytes_per_block()) return bytes.data;
  throw Error{kBadArg, "bytes must have " + std::to_string(arena.bytes_per_block()) + " elements, got " +
                           std::to_string(bytes.size)};
}

Napi::Value read_block(const Call& call) {
  const BlockArena& arena = receiver<BlockArena>(call);
  arena.read_block(read_block_id(call, arena), block_bytes(call, arena));
  return {};
}

Napi::Value write_block(const Call& call) {
  BlockArena& arena = receiver<BlockArena>(call);
  arena.write_block(read_block_id(call, arena), block_bytes(call, arena));
  return {};
}

Napi::Value arrivals(const Call& call) {
  const BlockArena& arena = receiver<BlockArena>(call);
  return call.number(arena.arrivals(read_block_id(call, arena)));
}

/// Lets other threads of this process find the arena under `id`. @returns the file by which other
/// processes find it; null if they cannot
Napi::Value share(const Call& call) {
  const auto& arena = Wrapped<BlockArena>::receiver(call).owned();
  auto config = Napi::Object::New(call.env);
  config.Set("id", call[0]);
  const std::string id = read_arena_id(config, "id");
  if (id.empty()) Call::refuse("id", "32 hexadecimal digits", call[0]);
  ArenaRegistry::of_process().add(id, arena);
  const auto* shared = dynamic_cast<const SharedBlocks*>(&arena->memory());
  return shared == nullptr ? call.env.Null() : call.number(shared->file());
}

}  // namespace

std::shared_ptr<BlockArena> allocate_host_arena(Napi::Value config, u32 num_blocks, u64 bytes_per_block) {
  const std::string id = read_arena_id(config, "shareId");
  if (id.empty()) return std::make_shared<BlockArena>(num_blocks, bytes_per_block);
  auto memory = SharedBlocks::create(id, num_blocks * bytes_per_block);
  auto arena = std::make_shared<BlockArena>(num_blocks, bytes_per_block, std::move(memory));
  ArenaRegistry::of_process().add(id, arena);
  return arena;
}

Napi::Value create_arena(const Call& call) {
  check_config(call[0]);
  const u32 num_blocks = read_integer(call[0], "numBlocks", 1, kMaxBlocks);
  const u32 bytes_per_block = read_integer(call[0], "bytesPerBlock", 1, 0x7fffffff);
  const u64 bytes = u64{num_blocks} * bytes_per_block;
  const bool shared = !read_arena_id(call[0], "shareId").empty();
  auto arena = shared ? allocate_host_arena(call[0], num_blocks, bytes_per_block)
                      : std::make_shared<BlockArena>(num_blocks, bytes_per_block, allocate_blocks(call[0], bytes));
  return Wrapped<BlockArena>::make(call.home, std::move(arena), bytes);
}

/// Finds an arena by its id, in this process or in the process that the configuration names.
Napi::Value attach_arena(const Call& call) {
  check_config(call[0]);
  const u32 num_blocks = read_integer(call[0], "numBlocks", 1, kMaxBlocks);
  const u32 bytes_per_block = read_integer(call[0], "bytesPerBlock", 1, 0x7fffffff);
  const u32 pid = read_integer(call[0], "pid", 1, 0x7fffffff);
  const u32 file = read_integer(call[0], "file", 0, 0x7fffffff);
  const std::string id = read_arena_id(call[0], "id");
  if (id.empty()) Call::refuse("id", "the id of an arena", read_property(call[0], "id"));
  std::shared_ptr<BlockArena> arena = ArenaRegistry::of_process().find(id);
  if (!arena) {
    auto memory = SharedBlocks::open(id, pid, file, u64{num_blocks} * bytes_per_block);
    arena = std::make_shared<BlockArena>(num_blocks, bytes_per_block, std::move(memory));
  }
  if (arena->num_blocks() != num_blocks || arena->bytes_per_block() != bytes_per_block) {
    throw Error{kBadArg, "arena " + id + " has " + std::to_string(arena->num_blocks()) + " blocks of " +
                             std::to_string(arena->bytes_per_block()) + " bytes, expected " +
                             std::to_string(num_blocks) + " of " + std::to_string(bytes_per_block)};
  }
  // The bytes are reported where the arena was made.
  return Wrapped<BlockArena>::make(call.home, std::move(arena), 0);
}

void define_arena_class(Napi::Env env) {
  Wrapped<BlockArena>::define(env, {
                                       method<buffer>(env, "buffer"),
                                       method<pointer>(env, "pointer"),
                                       method<read_block>(env, "readBlock"),
                                       method<write_block>(env, "writeBlock"),
                                       method<arrivals>(env, "arrivals"),
                                       method<share>(env, "share"),
                                       method<dispose_receiver<BlockArena>>(env, "dispose"),
                                   });
}

}  // namespace blockstep
