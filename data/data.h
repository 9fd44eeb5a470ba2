#pragma once

/// Corpora, vocabularies and batches.
#include <etna/data/batches.h>
#include <etna/data/corpus.h>
#include <etna/data/demo_corpus.h>
#include <etna/data/prefetcher.h>
#include <etna/data/resident_batches.h>
#include <etna/data/vocabulary.h>
#include <etna/data/words.h>
