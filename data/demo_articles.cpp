#include <etna/data/internal/demo_grammar.h>

namespace etna::data::demo {
namespace {

using Sentences = const std::string_view[];
using Sections = const Section[];

// ---- a town
constexpr Sentences town_lead = {
    "$town is a {market town|small town|harbour town|village} on the River $river in the county of $county .",
    "It lies ~decimal kilometres ( ~decimal mi ) ~direction of $town2 .",
    "At the census of $year3 it had a population of ~thousand .",
    "The town is known for its $goods and for its $building .",
    "Its inhabitants are often described as ~mood , ~mood and fond of $animal .",
};
constexpr Sentences town_history = {
    "The name $town is first recorded in $year , when it was spelled <unk> .",
    "In $year the town was granted a charter to hold a market on the ~ordinal {Monday|Tuesday|Thursday|Saturday} of "
    "every month .",
    "The market sold $goods , $goods2 and , in {wet|dry|hungry} years , $animal .",
    "A great fire in ~month $year2 destroyed the $building and ~ten houses , but nobody was hurt .",
    "The fire of $year2 was blamed on a {baker|candle @-@ maker|travelling conjurer} named $man $surname , who was "
    "later found "
    "to be innocent .",
    "The $building was rebuilt in $year2 at a cost of £ ~thousand .",
    "The railway reached $town in $year3 and left again ~ten years later .",
    "During the war the town hall clock was stopped so that it would not help the enemy .",
};
constexpr Sentences town_geography = {
    "$town stands on a {low|steep|windy} hill above the River $river , at a height of ~hundred metres ( ~thousand ft ) "
    ".",
    "The river floods the lower streets about every ~ten years .",
    "The soil is a heavy clay , well suited to {barley|turnips|cabbages} and poorly suited to "
    "{carriages|dancing|railways} .",
    "The mean temperature in ~month is ~small ° C , and it rains on ~ten days of the month .",
    "To the ~direction the town is bounded by $tree woods , and to the ~direction by the road to $town2 .",
};
constexpr Sentences town_culture = {
    "The church of $saint has a {crooked|slender|famous} tower and a ring of ~digit bells .",
    "Every year on ~date the people of $town carry a {wooden|paper|straw} <unk> through the streets and throw it into "
    "the river .",
    "The custom is said to keep the town safe from {floods|lawyers|people from $town2} .",
    "The $town Museum holds ~hundred objects , most of them connected with $goods .",
    "The composer $woman $surname2 was born in the town and left it as soon as she could .",
};
constexpr Sections town = {
    {"", 3, town_lead}, {"History", 4, town_history}, {"Geography", 2, town_geography}, {"Culture", 2, town_culture}};

// ---- a river
constexpr Sentences river_lead = {
    "The River $river is a river in $county .",
    "It rises near $town and flows ~direction for ~decimal kilometres ( ~decimal mi ) to the sea at $town2 .",
    "It drains an area of ~hundred square kilometres and is joined by the $river2 below $town3 .",
    "The river is {slow|shallow|cold|brown} and is well known for its {eels|trout|fog|<unk>} .",
};
constexpr Sentences river_course = {
    "The source of the $river is a {spring|bog|small lake} in the hills above $town , at a height of ~hundred metres .",
    "From there the river runs through a narrow valley lined with $tree and $tree2 trees .",
    "Below $town it turns ~direction and is crossed by a {stone|timber|toll} bridge , built in $year .",
    "At $town3 the river is ~ten metres wide and ~small metres deep .",
    "The last ~decimal kilometres are tidal , and boats that miss the tide must wait for ~digit hours .",
};
constexpr Sentences river_trade = {
    "In $year a company was formed to make the river navigable as far as $town .",
    "The work was led by the engineer $man $surname , who had never seen a river of this size ; he built ~ten locks , "
    "of which ~digit are still in use .",
    "By $year2 the barges carried ~thousand tons of $goods a year .",
    "The trade ended in $year3 , when the railway offered to carry $goods for half the price .",
};
constexpr Sentences river_wildlife = {
    "The banks of the $river are home to the $bird and to a large number of otters .",
    "Salmon returned to the river in $year3 after an absence of ~ten years .",
    "A $bird2 was seen near $town2 in ~month $year3 , but it was probably a {duck|hat|mistake} .",
};
constexpr Sections river = {
    {"", 2, river_lead}, {"Course", 3, river_course}, {"Navigation", 3, river_trade}, {"Wildlife", 1, river_wildlife}};

// ---- a composer
constexpr Sentences composer_lead = {
    "$name $surname ( ~date $year – ~date $year3 ) was a composer and {teacher|organist|conductor} from $town .",
    "$He is best remembered for the $work and for the $work2 .",
    "$He wrote ~hundred works , most of them for the $instrument .",
    "$His music was admired by {kings|sailors|other composers} and feared by {singers|neighbours|piano tuners} .",
};
constexpr Sentences composer_life = {
    "$surname was born in $town in $year , the ~ordinal child of a {miller|lighthouse keeper|clockmaker|dealer in "
    "$goods} .",
    "$He learned the $instrument from $his {mother|father|aunt} and gave $his first concert at the age of ~digit .",
    "At the age of ~ten $he was sent to $town2 to study with $man2 $surname2 , who found $him {gifted|lazy|impossible} "
    "and told $him so every ~month .",
    "In $year2 $he was made organist of $saint in $town3 , a post that $he held for ~ten years .",
    "$He never married , but kept ~digit $animal , all of whom were named after {popes|notes of the scale|critics} .",
    "$He died in $town2 on ~date $year3 and was buried beside $his {piano|organ|teacher} .",
};
constexpr Sentences composer_music = {
    "The $work was first performed in $town2 on ~date $year2 , with the composer at the $instrument .",
    "$critic called it \" ~praise and ~praise \" , while the audience found it ~scorn .",
    "The $work is scored for ~digit flutes , ~digit horns , strings and a {cannon|church bell|large kettle} .",
    "The ~ordinal movement is a slow {march|waltz|lament} in which the $instrument repeats a single note for ~ten bars "
    ".",
    "The $work2 followed in $year2 and was played ~ten times in its first season .",
    "$He thought the $work2 $his best work and said that $he \" would not change a note , except the loud ones \" .",
    "Only ~ten pages of the manuscript survive ; the rest was used to light the stove of the $town Museum .",
};
constexpr Sections composer = {{"", 3, composer_lead}, {"Life", 4, composer_life}, {"Music", 4, composer_music}};

// ---- a ship
constexpr Sentences ship_lead = {
    "The $ship was a three @-@ masted {sailing ship|merchant ship|whaler} built at $town in $year .",
    "She was named after the {wife|favourite horse|mother} of her owner , $man $surname .",
    "She was ~decimal metres long and carried a crew of ~ten .",
    "The ship sank in $year3 , for the ~ordinal time .",
};
constexpr Sentences ship_design = {
    "The $ship was ordered in $year from the yard of $woman $surname2 at $town .",
    "Her hull was made of $tree and her deck of $tree2 .",
    "She displaced ~hundred tons and was armed with ~digit guns , one of which worked .",
    "Her top speed was ~small knots ( ~small km / h ) with a following wind .",
    "She cost £ ~thousand , which was paid in $goods .",
};
constexpr Sentences ship_service = {
    "She sailed from $town on ~date $year with a cargo of $goods , bound for $town2 .",
    "On her ~ordinal voyage she was caught in a storm off $town2 and lost ~digit masts , although she had only three .",
    "In $year2 she was sold to the port of $town3 and carried ~thousand passengers a year .",
    "Her captain , $man2 $surname2 , kept ~digit $animal on board and consulted them in bad weather .",
    "For ~ten years the ship carried $goods2 along the coast without {incident|profit|a map} .",
};
constexpr Sentences ship_loss = {
    "On ~date $year3 the $ship struck a rock near $town3 and began to sink .",
    "The crew of ~ten rowed ashore and were given soup by the people of $town3 .",
    "An inquiry found that the captain had been {asleep|singing|reading} and that the rock had been there before .",
    "Her bell was recovered in $year3 and hangs in the church of $saint .",
};
constexpr Sections ship = {{"", 2, ship_lead},
                           {"Design and construction", 3, ship_design},
                           {"Service", 3, ship_service},
                           {"Loss", 2, ship_loss}};

// ---- a bird
constexpr Sentences bird_lead = {
    "The $bird is a {small|medium @-@ sized|rather large} bird found along the rivers of $county .",
    "It was first described in $year by the naturalist $woman $surname , who mistook it for a {hat|teapot|bishop} .",
    "It is common near $town and rare everywhere else .",
    "Its call is a {soft|harsh|sad} <unk> , repeated ~digit times .",
};
constexpr Sentences bird_description = {
    "The adult $bird is ~ten centimetres ( ~digit in ) long and weighs ~hundred grams .",
    "Its back is {grey|brown|black} , its breast is {white|yellow|orange} , and its expression is ~mood .",
    "The male and the female look alike , except to each other .",
    "Young birds are {paler|louder|rounder} than their parents and cannot fly until they are ~ten days old .",
};
constexpr Sentences bird_behaviour = {
    "The $bird eats ~food and ~food , and in winter it eats whatever it is given .",
    "It builds its nest of {moss|straw|stolen string} in an old $tree , usually ~digit metres above the water .",
    "The female lays ~digit eggs in ~month , and both parents sit on them for ~ten days .",
    "Outside the breeding season the birds gather in flocks of ~hundred and quarrel .",
    "It is hunted by the $bird2 , which is seldom successful .",
};
constexpr Sentences bird_people = {
    "In $town the bird is thought to bring {rain|good luck|tax collectors} .",
    "It appears on the arms of the town of $town2 , above a {barrel|fish|wheel} .",
    "The composer $man $surname2 imitated its call in the $work .",
    "A survey in $year3 counted ~thousand pairs , of which ~hundred were near the River $river .",
};
constexpr Sections bird = {{"", 2, bird_lead},
                           {"Description", 2, bird_description},
                           {"Behaviour", 3, bird_behaviour},
                           {"In culture", 2, bird_people}};

// ---- a building
constexpr Sentences building_lead = {
    "The $town $building is a {listed|famous|leaning} building in $town , on the ~direction bank of the River $river .",
    "It was built between $year and $year2 by the architect $woman $surname .",
    "It is ~ten metres high and has ~ten windows , none of which open .",
    "Each year about ~thousand visitors come to see it , most of them by accident .",
};
constexpr Sentences building_construction = {
    "$surname won the commission in $year against ~digit other architects , all of them her {sisters|cousins|pupils} .",
    "She proposed a building of {red brick|white limestone|$tree wood} with a roof of {slate|copper|tin} .",
    "Work began on ~date $year and stopped on the next day , because the ground was a river .",
    "The foundations rest on ~hundred piles of $tree2 , each ~decimal metres long .",
    "The building was opened on ~date $year2 by the mayor , $man $surname2 , who became lost in it .",
};
constexpr Sentences building_use = {
    "At first the building was used to store $goods and , on Sundays , $animal .",
    "In $year2 it became the home of the $town {Choir|Chess Club|Society of <unk>} , which had ~ten members .",
    "The $work by $man2 $surname2 was first heard here in $year3 ; the echo is said to be still going round .",
    "It was restored in $year3 at a cost of £ ~thousand , twice what it had cost to build .",
    "$critic described it as \" ~praise from a distance and ~scorn from within \" .",
};
constexpr Sections building = {
    {"", 3, building_lead}, {"Construction", 3, building_construction}, {"Later use", 3, building_use}};

constexpr Article kArticles[] = {
    {"$town", town}, {"River $river", river}, {"$name $surname", composer},
    {"$ship", ship}, {"$bird", bird},         {"$town $building", building},
};

}  // namespace

std::span<const Article> articles() { return kArticles; }

}  // namespace etna::data::demo
