#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <etna/models/decoder.h>

/// What a fuzzer runs over bytes, one function for each reader of files. True if the bytes are a sound file; a refusal
/// is a FormatError (of grammars a GrammarError), which the function catches. Anything else that is thrown, and every
/// fault, is a defect.
namespace etna::fuzz {

bool gguf(const std::uint8_t* data, std::size_t size);
bool llama2c(const std::uint8_t* data, std::size_t size);
bool safetensors(const std::uint8_t* data, std::size_t size);
bool decoder_config(const std::uint8_t* data, std::size_t size);
/// A whole GGUF file as a decoder, written to a file first.
bool decoder_file(const std::uint8_t* data, std::size_t size);
bool encoder_config(const std::uint8_t* data, std::size_t size);
/// A whole GGUF file as an encoder, written to a file first.
bool encoder_file(const std::uint8_t* data, std::size_t size);
bool shard_index(const std::uint8_t* data, std::size_t size);
/// Low-rank adapters in a GGUF file, loaded into tiny_decoder().
bool adapter_file(const std::uint8_t* data, std::size_t size);
/// The adapter_config.json beside adapters that PEFT wrote.
bool adapter_config(const std::uint8_t* data, std::size_t size);
/// The tokenizer_config.json beside a small tokenizer.json.
bool tokenizer_config(const std::uint8_t* data, std::size_t size);
/// A Jinja template of a model, recognized and run over a conversation. A build without minja runs none.
bool chat_template(const std::uint8_t* data, std::size_t size);
/// A checkpoint of a module and a number.
bool checkpoint(const std::uint8_t* data, std::size_t size);

/// A JSON schema; of one that is supported, random answers must be JSON.
bool json_schema(const std::uint8_t* data, std::size_t size);
/// A regular expression as a grammar, and a short walk through it.
bool regex(const std::uint8_t* data, std::size_t size);
/// A grammar in GBNF, and a short walk through it.
bool gbnf(const std::uint8_t* data, std::size_t size);

/// The body of a chat's request; in builds with a server.
bool chat_body(const std::uint8_t* data, std::size_t size);
/// The bodies of OpenAI's responses and of Anthropic's messages.
bool responses_body(const std::uint8_t* data, std::size_t size);
bool messages_body(const std::uint8_t* data, std::size_t size);
/// What a model writes that may call tools, after two bytes that choose its markup and the length of pieces: however
/// it is cut, the same events must come; true where a tool is called.
bool tool_answer(const std::uint8_t* data, std::size_t size);
/// All that a client sends to a server of tiny_decoder(); true for a reply with status 200.
bool http_request(const std::uint8_t* data, std::size_t size);

/// The smallest decoder: width 4, a vocabulary of 5.
std::unique_ptr<models::Decoder> tiny_decoder();

}  // namespace etna::fuzz
