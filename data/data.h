#pragma once

/// Datasets, loaders, readers of files; corpora, vocabularies and batches of text.
#include <etna/data/batches.h>
#include <etna/data/collate.h>
#include <etna/data/corpus.h>
#include <etna/data/csv.h>
#include <etna/data/data_loader.h>
#include <etna/data/dataset.h>
#include <etna/data/demo_corpus.h>
#include <etna/data/idx.h>
#include <etna/data/image.h>
#include <etna/data/iterable.h>
#include <etna/data/packing.h>
#include <etna/data/prefetcher.h>
#include <etna/data/random.h>
#include <etna/data/resident_batches.h>
#include <etna/data/sampler.h>
#include <etna/data/text_blocks.h>
#include <etna/data/text_file.h>
#include <etna/data/text_sources.h>
#include <etna/data/token_file.h>
#include <etna/data/transforms.h>
#include <etna/data/vision.h>
#include <etna/data/vocabulary.h>
#include <etna/data/words.h>
