"""Sentences that somebody says to a house, as text files: five intents, twenty sentences of each."""

from tinytrain.base.errors import UsageError
from tinytrain.base.random_streams import rng_for

NAME = "notes"
SENTENCES = {
    "alarm": """\
Wake me at half past six tomorrow.
Set an alarm for seven o'clock.
I have to get up at five, don't let me sleep in.
Remind me in twenty minutes to take the cake out of the oven.
Give me a ring at noon.
Start a timer for ten minutes.
Can you wake the children at a quarter to seven?
Cancel the alarm for Saturday.
How long until my timer goes off?
Let me sleep another five minutes.
Don't wake me before nine at the weekend.
Beep when the eggs have boiled for six minutes.
At what time will you wake me?
Stop that ringing.
I need a reminder at three to call the dentist.
Count down from ninety seconds.
Move my morning alarm an hour later.
Get me out of bed early on Monday.
Is there an alarm set for tonight?
Snooze for a quarter of an hour.
""",
    "light": """\
Turn on the light in the kitchen.
It is too dark in here.
Switch off all the lamps, please.
Dim the bedroom to twenty percent.
Make the living room brighter.
Can you leave the lamp in the hall on?
I can't see anything in the cellar.
Lights out, I am going to bed.
Set the lamps to a warm colour.
The bulb over the table is too bright.
Illuminate the stairs when somebody comes.
Make it cosy, a little less light.
Who left the lights on in the bathroom?
Change the reading lamp to blue.
Turn everything dark except the desk lamp.
Light up the garden.
The ceiling light should go off at eleven.
Flash the porch lamp twice.
I would like candle-like lighting for dinner.
Brighten up the corridor.
""",
    "music": """\
Play some jazz.
Put on my favourite album.
Turn the volume down a little.
Skip this song.
Who is singing that?
I want to hear something by Bach.
Next track, please.
Play the song again from the start.
Stop the music.
Find me a cheerful playlist for the party.
Louder, I love this tune.
Shuffle my rock collection.
What is the name of this band?
Switch to the classical radio station.
Some quiet piano pieces would be nice now.
Add this tune to my favourites.
Continue the podcast where I left off.
Mute the speakers in the office.
Let's dance, give us some salsa.
Play the soundtrack of that film.
""",
    "shopping": """\
Put milk on the list.
We have run out of eggs.
Add two loaves of bread, please.
I need new batteries, write that down.
Order more dishwasher tablets.
What do I still have to buy?
Take the onions off the list, I have some.
Don't forget the coffee when you go to the supermarket.
We need flour, sugar and butter for the cake.
Is there toothpaste on my shopping list?
There is no toilet paper left.
Buy a birthday present for Anna.
Note that the cat needs food.
Read out the groceries that are missing.
Get half a kilo of tomatoes.
Clear everything that I have bought.
The olive oil is nearly empty.
I'd like some apples and pears from the market.
Remember to pick up nappies.
How many bottles of water did I put down?
""",
    "weather": """\
Will it rain tomorrow?
How warm is it outside?
Do I need an umbrella today?
What's the forecast for the weekend?
Is a storm coming?
Tell me how cold it will get tonight.
Are the roads icy this morning?
When does the sun come out again?
Is it going to snow at Christmas?
How strong is the wind on the coast?
Can we have a barbecue on Sunday, or will it be wet?
What is the temperature in Hamburg?
Will the fog lift before noon?
Should I wear a thick coat?
How long will this heat last?
Is it cloudy in the mountains?
Any thunder expected this evening?
How humid is the air?
Will there be frost, so that I must cover the roses?
Which day next week is the sunniest?
""",
}


def sentence(name: str, number: int, seed: int = 0) -> bytes:
    """The text file of sentence `number`, from 1 on, of an intent; `seed` is their order.

    Raises UsageError for more than there are.
    """
    lines = SENTENCES[name].splitlines()
    if number > len(lines):
        raise UsageError(
            "usage", f"there are {len(lines)} sentences of each class; give --per-class {len(lines)}"
        )
    order = rng_for(seed, NAME, name).permutation(len(lines))
    return f"{lines[order[number - 1]]}\n".encode()
