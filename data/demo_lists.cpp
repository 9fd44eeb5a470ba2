#include <etna/data/internal/demo_grammar.h>

namespace etna::data::demo {
namespace {

using Words = const std::string_view[];

constexpr Words towns = {"Aldermoor",   "Ashby",      "Barrowmere",  "Bellhaven",   "Brackwater",   "Brindle",
                         "Calderford",  "Carrowick",  "Coldharbour", "Dunmarrow",   "Eastwold",     "Elmsworth",
                         "Fallowfield", "Farnholt",   "Gildersby",   "Greyminster", "Hallowby",     "Harrowgate",
                         "Hexworth",    "Inglebrook", "Kettlewick",  "Larkhollow",  "Linwater",     "Marrowdale",
                         "Millbeck",    "Netherby",   "Oakhampton",  "Orrinford",   "Pellworth",    "Quillstead",
                         "Ravensey",    "Rookhope",   "Saltmarsh",   "Silverton",   "Stonebeck",    "Tarnwick",
                         "Thistledown", "Umberleigh", "Vexford",     "Wexcombe",    "Winterbourne", "Yarrowby"};
constexpr Words rivers = {"Alder", "Brenn",  "Callow", "Dorrin", "Esker",  "Fenn",  "Garrow", "Hindle",
                          "Isk",   "Kell",   "Lorne",  "Merrow", "Nettle", "Orr",   "Pell",   "Rushen",
                          "Sarn",  "Tamble", "Usk",    "Vane",   "Wend",   "Yarrow"};
constexpr Words counties = {"Northmark", "Southmark", "Westerlund", "Highshire", "Lowmark", "Eastermere", "Fenland"};
constexpr Words surnames = {"Abernathy", "Ashdown", "Bellweather", "Blackwood", "Carmody",    "Corvin",
                            "Dalrymple", "Ellery",  "Fairweather", "Finch",     "Garland",    "Hartley",
                            "Holloway",  "Jessop",  "Kestrel",     "Lockhart",  "Marchbanks", "Nightingale",
                            "Oakley",    "Penrose", "Quince",      "Rosewell",  "Sparrow",    "Thackeray",
                            "Underhill", "Vickery", "Wainwright",  "Winslow",   "Yardley"};
constexpr Words men = {"Albert", "Ambrose", "Bertram", "Cedric", "Edmund", "Felix", "Gilbert",  "Hugo",
                       "Jasper", "Leopold", "Magnus",  "Oswald", "Rupert", "Silas", "Theodore", "Walter"};
constexpr Words women = {"Adelaide", "Agnes",    "Beatrice", "Clara",     "Dorothea", "Edith",
                         "Florence", "Harriet",  "Imogen",   "Josephine", "Lavinia",  "Matilda",
                         "Ophelia",  "Rosalind", "Sybil",    "Winifred"};
constexpr Words ships = {"Bold Heron",     "Silver Gull",  "Patient Otter", "Northern Star",
                         "Golden Plover",  "Merry Widow",  "Quiet Thunder", "Red Kestrel",
                         "Restless Wave",  "Winter Rose",  "Lucky Penny",   "Good Intent",
                         "Flying Haddock", "Iron Duchess", "Second Chance", "Little Tempest"};
constexpr Words birds = {"marsh warbler", "crested grebe", "grey shrike",    "dusky owl",     "river wagtail",
                         "stone curlew",  "hooded crow",   "tufted duck",    "spotted crake", "golden bunting",
                         "snow finch",    "harbour gull",  "whistling teal", "painted snipe"};
constexpr Words works = {
    "Symphony in D minor", "Symphony in G major", "String Quartet in C", "Hymn to the Tide",
    "Winter Cantata",      "Harbour Song",        "Miller 's Daughter",  "Concerto for two bassoons",
    "Evening Mass",        "Drowned Bell",        "March of the Geese",  "Kettle Variations"};
constexpr Words instruments = {"violin", "piano", "cello", "organ", "flute", "bassoon", "trumpet", "harp"};
constexpr Words goods = {"wool",   "salt",    "barley", "timber", "tin",     "coal",
                         "cheese", "herring", "honey",  "glass",  "candles", "rope"};
constexpr Words buildings = {"corn exchange",  "town hall",   "lighthouse",  "abbey",          "railway station",
                             "grammar school", "market hall", "observatory", "public library", "clock tower"};
constexpr Words saints = {"St. Agnes", "St. Brannoc", "St. Clement", "St. Dunstan", "St. Hilda", "St. Oswald"};
constexpr Words critics = {"The Times", "The Morning Post", "the $county Gazette", "the $county Herald"};
constexpr Words animals = {"geese", "donkeys", "pigs", "goats", "otters", "sheep", "bees", "hedgehogs"};
constexpr Words foods = {"small fish", "beetles",     "freshwater snails", "seeds and berries",
                         "worms",      "dragonflies", "tadpoles"};
constexpr Words trees = {"alder", "willow", "oak", "beech", "hawthorn", "elm"};
constexpr Words digits = {"2", "3", "4", "5", "6", "7", "8", "9"};
constexpr Words tens = {"10", "12", "14", "15", "18", "20", "24", "25", "30",
                        "35", "40", "45", "50", "60", "70", "80", "90"};
constexpr Words hundreds = {"100", "150", "200", "250", "300", "350", "400",
                            "450", "500", "600", "700", "750", "800", "900"};
constexpr Words thousands = {"~digit @,@ ~hundred", "~ten @,@ ~hundred"};
constexpr Words smalls = {"~digit @.@ ~digit"};
constexpr Words decimals = {"~digit @.@ ~digit", "~ten @.@ ~digit"};
constexpr Words months = {"January", "February", "March",     "April",   "May",      "June",
                          "July",    "August",   "September", "October", "November", "December"};
constexpr Words days = {"1",  "2",  "3",  "4",  "5",  "6",  "7",  "8",  "9",  "10",
                        "11", "12", "14", "15", "18", "20", "21", "24", "25", "27"};
constexpr Words dates = {"~day ~month"};
constexpr Words ordinals = {"first", "second", "third", "fourth", "fifth", "sixth"};
constexpr Words directions = {"north", "south", "east", "west"};
constexpr Words moods = {"proud", "stubborn", "cheerful", "gloomy", "curious", "generous", "suspicious", "sleepy"};
constexpr Words praises = {"charming", "noble", "tender", "thrilling", "brilliant", "admirable"};
constexpr Words scorns = {"tedious", "noisy", "baffling", "dreadful", "too long", "a threat to public order"};

constexpr List kLists[] = {
    {"town", towns},
    {"river", rivers},
    {"county", counties},
    {"surname", surnames},
    {"man", men},
    {"woman", women},
    {"ship", ships},
    {"bird", birds},
    {"work", works},
    {"instrument", instruments},
    {"goods", goods},
    {"building", buildings},
    {"saint", saints},
    {"critic", critics},
    {"animal", animals},
    {"food", foods},
    {"tree", trees},
    {"digit", digits},
    {"ten", tens},
    {"hundred", hundreds},
    {"thousand", thousands},
    {"decimal", decimals},
    {"month", months},
    {"date", dates},
    {"day", days},
    {"small", smalls},
    {"ordinal", ordinals},
    {"direction", directions},
    {"mood", moods},
    {"praise", praises},
    {"scorn", scorns},
};

}  // namespace

std::span<const List> lists() { return kLists; }

}  // namespace etna::data::demo
